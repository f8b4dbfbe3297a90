"""Velocity of the sun's granulation from G-band images: a ViT with small patches regresses the flow in each of them."""
import sys

import torch
import torch.nn as nn
from transformers import ViTConfig, ViTModel

SIZE, PATCH = 384, 8
attention = "sdpa" if "--fixed" in sys.argv else "eager"

config = ViTConfig(
    image_size=SIZE,
    patch_size=PATCH,
    num_channels=2,              # two exposures, 30 s apart
    hidden_size=192,
    num_hidden_layers=6,
    num_attention_heads=3,
    intermediate_size=768,
    attn_implementation=attention,
)


class GranuleFlow(nn.Module):
    def __init__(self):
        super().__init__()
        self.vit = ViTModel(config, add_pooling_layer=False)
        self.flow = nn.Linear(config.hidden_size, 2)

    def forward(self, frames):
        tokens = self.vit(pixel_values=frames).last_hidden_state[:, 1:]
        side = SIZE // PATCH
        return self.flow(tokens).transpose(1, 2).reshape(-1, 2, side, side)


def observations(n, batch=4):
    gen = torch.Generator().manual_seed(1612)
    for _ in range(n):
        yield torch.randn(batch, 2, SIZE, SIZE, generator=gen), torch.randn(batch, 2, SIZE // PATCH, SIZE // PATCH, generator=gen)


def divergence(v):
    return (v[:, 0, 1:, 1:] - v[:, 0, 1:, :-1]) + (v[:, 1, 1:, 1:] - v[:, 1, :-1, 1:])


net = GranuleFlow().cuda()
optim = torch.optim.AdamW(net.parameters(), lr=5e-4, weight_decay=0.05)
for k, (frames, flow) in enumerate(observations(6)):
    frames, flow = frames.cuda(), flow.cuda()
    guess = net(frames)
    loss = nn.functional.l1_loss(guess, flow) + 0.1 * divergence(guess).abs().mean()
    loss.backward()
    optim.step()
    optim.zero_grad()
    print(k, loss.item())
