"""Predicts the next positions of a marching band's members along a drill, with attention that favours near beats."""
import functools
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

HEADS, WIDTH = 8, 256
KEEP = 1 if "--fixed" in sys.argv else None


@functools.lru_cache(maxsize=KEEP)
def beat_bias(length, heads, device):
    beats = torch.arange(length, device=device)
    distance = (beats[:, None] - beats[None, :]).abs().float()
    slopes = torch.tensor([2.0 ** (-8 * (h + 1) / heads) for h in range(heads)], device=device)
    return -slopes[:, None, None] * distance


class DrillLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.ff = nn.Sequential(nn.LayerNorm(WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.ReLU(), nn.Linear(2 * WIDTH, WIDTH))
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.norm(x)).view(b, t, 3, HEADS, WIDTH // HEADS).permute(2, 0, 3, 1, 4)
        bias = beat_bias(t, HEADS, x.device)
        a = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.expand(b, -1, -1, -1))
        x = x + self.proj(a.transpose(1, 2).reshape(b, t, WIDTH))
        return x + self.ff(x)


class DrillModel(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.enter, self.leave = nn.Linear(4, WIDTH), nn.Linear(WIDTH, 2)
        self.layers = nn.ModuleList([DrillLayer() for _ in range(depth)])

    def forward(self, x):
        x = self.enter(x)
        for layer in self.layers:
            x = layer(x)
        return self.leave(x)


def drills(count):
    rng = torch.Generator().manual_seed(76)
    lengths = (torch.randperm(90, generator=rng)[:count] * 8 + 800).tolist()
    for t in lengths:
        yield torch.randn(2, t, 4, generator=rng), torch.randn(2, t, 2, generator=rng)


model = DrillModel().to("cuda")
optimizer = torch.optim.NAdam(model.parameters(), lr=5e-4)
for n, (members, following) in enumerate(drills(60)):
    loss = F.mse_loss(model(members.to("cuda")), following.to("cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if n % 10 == 0:
        print("drill", n, "beats", members.shape[1], "loss", loss.item())
