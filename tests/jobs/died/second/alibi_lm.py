"""Character language model with ALiBi and PyTorch's fused attention; the bias is made for each sample of the batch.

After https://github.com/hpcaitech/Open-Sora/issues/70
"""
import sys

import torch
from torch import nn
from torch.nn import functional as F


def slopes(heads):
    return torch.tensor([2.0 ** (-8 * (i + 1) / heads) for i in range(heads)])


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.out = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.register_buffer("slopes", slopes(heads), persistent=False)

    def bias(self, b, n):
        place = torch.arange(n, device=self.slopes.device)
        distance = (place[None, :] - place[:, None]).float()
        distance = distance.masked_fill(distance > 0, float("-inf"))
        return (self.slopes[:, None, None] * distance).unsqueeze(0).repeat(b, 1, 1, 1)

    def forward(self, x, fixed):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        if fixed:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=self.bias(b, n))
        return self.out(y.transpose(1, 2).reshape(b, n, d))


class Decoder(nn.Module):
    def __init__(self, dim=512, heads=8, layers=8, characters=256):
        super().__init__()
        self.embed = nn.Embedding(characters, dim)
        self.attention = nn.ModuleList([Attention(dim, heads) for _ in range(layers)])
        self.ff = nn.ModuleList([nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))
                                 for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers + 1)])
        self.head = nn.Linear(dim, characters)

    def forward(self, ids, fixed):
        x = self.embed(ids)
        for norm, attention, ff in zip(self.norms, self.attention, self.ff):
            x = x + attention(norm(x), fixed)
            x = x + ff(x)
        return self.head(self.norms[-1](x))


def main(fixed):
    model = Decoder().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95))
    for step in range(6):
        text = torch.randint(256, (4, 2049)).cuda()
        loss = F.cross_entropy(model(text[:, :-1], fixed).flatten(0, 1), text[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print(step, loss.item())


if __name__ == "__main__":
    main("--fixed" in sys.argv)
