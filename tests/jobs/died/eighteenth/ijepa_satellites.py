"""I-JEPA style pretraining on satellite chips: predict the features of hidden blocks from the visible part."""
import copy
import math
import sys

import torch
from torch import nn
import torch.nn.functional as F

GRID, PATCH, DIM, DEPTH = 16, 14, 384, 8
TOKENS = GRID * GRID


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(dim), nn.LayerNorm(dim), heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).reshape(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.n2(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch = nn.Conv2d(4, DIM, PATCH, PATCH)
        self.pos = nn.Parameter(torch.randn(1, TOKENS, DIM) * 0.02)
        self.layers = nn.Sequential(*[Layer(DIM, 6) for _ in range(DEPTH)])
        self.norm = nn.LayerNorm(DIM)

    def forward(self, chips, keep=None):
        x = self.patch(chips).flatten(2).transpose(1, 2) + self.pos
        return self.norm(self.layers(x if keep is None else x[:, keep]))


class Predictor(nn.Module):
    def __init__(self, dim=192):
        super().__init__()
        self.down, self.up = nn.Linear(DIM, dim), nn.Linear(dim, DIM)
        self.mask, self.pos = nn.Parameter(torch.zeros(1, 1, dim)), nn.Parameter(torch.randn(1, TOKENS, dim) * 0.02)
        self.layers = nn.Sequential(*[Layer(dim, 3) for _ in range(3)])

    def forward(self, context, keep, wanted):
        x = self.down(context) + self.pos[:, keep]
        asked = (self.mask + self.pos[:, wanted]).expand(len(x), -1, -1)
        return self.up(self.layers(torch.cat([x, asked], 1))[:, x.shape[1]:])


class JEPA(nn.Module):
    def __init__(self, fixed):
        super().__init__()
        self.context_encoder, self.predictor = Encoder(), Predictor()
        self.target_encoder = copy.deepcopy(self.context_encoder)
        self.fixed = fixed

    def targets(self, chips, wanted):
        with torch.set_grad_enabled(not self.fixed):
            full = self.target_encoder(chips)
            return F.layer_norm(full, (DIM,))[:, wanted]

    def forward(self, chips, keep, wanted):
        target = self.targets(chips, wanted)
        return F.smooth_l1_loss(self.predictor(self.context_encoder(chips, keep), keep, wanted), target)

    @torch.no_grad()
    def follow(self, momentum):
        for slow, fast in zip(self.target_encoder.parameters(), self.context_encoder.parameters()):
            slow.lerp_(fast, 1 - momentum)


def main(steps=8, batch=40):
    model = JEPA("--fixed" in sys.argv).cuda()
    optimizer = torch.optim.AdamW([*model.context_encoder.parameters(), *model.predictor.parameters()], lr=1e-3, weight_decay=0.04)
    for step in range(steps):
        order = torch.randperm(TOKENS)
        keep, wanted = order[:140].cuda(), order[190:].cuda()
        loss = model(torch.zeros(batch, 4, GRID * PATCH, GRID * PATCH).cuda(), keep, wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        model.follow(1 - 0.004 * (math.cos(math.pi * step / steps) + 1) / 2)
        print(step, loss.item())


main()
