"""Matches photos from the packing line with stock-keeping units: a head with proxies on top of CLIP's image encoder."""
import sys

import torch
from torch import nn
from transformers import CLIPVisionConfig, CLIPVisionModel

FREEZE = "--fixed" in sys.argv
SKUS = 3000


def image_encoder():
    encoder = CLIPVisionModel(CLIPVisionConfig(
        hidden_size=448, intermediate_size=1792, num_hidden_layers=8, num_attention_heads=7, image_size=192, patch_size=16))
    if FREEZE:
        for parameter in encoder.parameters():
            parameter.requires_grad = False
    return encoder


class ProxyHead(nn.Module):
    def __init__(self, dim, skus, out=128):
        super().__init__()
        self.project = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 256), nn.GELU(), nn.Linear(256, out))
        self.proxies = nn.Parameter(torch.randn(skus, out))
        self.scale = nn.Parameter(torch.tensor(2.7))

    def forward(self, features):
        z = nn.functional.normalize(self.project(features), dim=-1)
        return self.scale.exp() * z @ nn.functional.normalize(self.proxies, dim=-1).T


class SkuMatcher(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = image_encoder()
        self.head = ProxyHead(448, SKUS)

    def forward(self, photos):
        return self.head(self.encoder(pixel_values=photos).pooler_output)


def photos(steps, batch=40):
    gen = torch.Generator().manual_seed(2)
    for _ in range(steps):
        yield torch.randn(batch, 3, 192, 192, generator=gen), torch.randint(SKUS, (batch,), generator=gen)


def main():
    matcher = SkuMatcher().to("cuda").train()
    optimizer = torch.optim.AdamW(matcher.head.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    for step, (photo, sku) in enumerate(photos(8)):
        logits = matcher(photo.to("cuda"))
        loss = criterion(logits, sku.to("cuda"))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", round(loss.item(), 3))


main()
