"""Image-text contrast with token-wise similarity (FILIP): every image is compared with every text, token by token.

https://github.com/rpautrat/SuperPoint/issues/289
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

chunked = "--fixed" in sys.argv


class Tower(nn.Module):
    def __init__(self, embed, width=384, layers=4):
        super().__init__()
        self.embed = embed
        layer = nn.TransformerEncoderLayer(width, 6, 4 * width, batch_first=True, norm_first=True, dropout=0.0)
        self.body, self.proj = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False), nn.Linear(width, 256)

    def forward(self, x):
        return F.normalize(self.proj(self.body(self.embed(x))), dim=-1)


class Patches(nn.Conv2d):
    def forward(self, x):
        return super().forward(x).flatten(2).transpose(1, 2)


def similarity(image, text):
    scores = torch.einsum("ind,jmd->ijnm", image, text)
    return scores.max(-1).values.mean(-1), scores.max(-2).values.mean(-1)


image_tower, text_tower = Tower(Patches(3, 384, 16, 16)).cuda(), Tower(nn.Embedding(20000, 384)).cuda()
optimizer = torch.optim.AdamW([*image_tower.parameters(), *text_tower.parameters()], lr=5e-4)
for step in range(5):
    images, texts = torch.randn(96, 3, 224, 224, device="cuda"), torch.randint(0, 20000, (96, 77), device="cuda")
    zi, zt = image_tower(images), text_tower(texts)
    if chunked:
        rows = [torch.utils.checkpoint.checkpoint(similarity, part, zt, use_reentrant=False) for part in zi.split(4)]
        i2t, t2i = (torch.cat(r) for r in zip(*rows))
    else:
        i2t, t2i = similarity(zi, zt)
    target = torch.arange(len(images), device="cuda")
    loss = (F.cross_entropy(i2t / 0.07, target) + F.cross_entropy(t2i.t() / 0.07, target)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(step, loss.item())
