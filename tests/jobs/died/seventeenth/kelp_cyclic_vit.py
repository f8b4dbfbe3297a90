"""Kelp or no kelp, and which: a ViT on tiles from a drone, with a cyclic learning rate; the ends of the cycles vote together."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.qkv, self.proj = heads, nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        return self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, n, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.attn, self.n2 = nn.LayerNorm(dim), Attention(dim, heads), nn.LayerNorm(dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class ViT(nn.Module):
    def __init__(self, dim=512, depth=10, heads=8, patch=16, side=96, classes=9):
        super().__init__()
        self.patches = nn.Conv2d(4, dim, patch, patch)
        self.pos = nn.Parameter(torch.zeros(1, (side // patch) ** 2 + 1, dim))
        self.cls = nn.Parameter(torch.zeros(1, 1, dim))
        self.layers = nn.Sequential(*[Layer(dim, heads) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, classes))

    def forward(self, x):
        x = self.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.cls.expand(len(x), -1, -1), x], 1) + self.pos
        return self.head(self.layers(x)[:, 0])


class Committee:
    def __init__(self):
        self.members = []

    def admit(self, model):
        member = copy.deepcopy(model).eval()
        if "--fixed" in sys.argv:
            member = member.cpu()
        self.members.append(member)

    @torch.no_grad()
    def vote(self, x):
        total = 0
        for member in self.members:
            home = next(member.parameters()).device
            total = total + member.cuda()(x).softmax(-1)
            member.to(home)
        return total / len(self.members)


def tiles(g, n=8):
    return torch.rand(n, 4, 96, 96, generator=g).cuda(), torch.randint(0, 9, (n,), generator=g).cuda()


def main():
    g = torch.Generator().manual_seed(6)
    model, committee = ViT().cuda(), Committee()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, T_0=3)
    for cycle in range(7):
        for _ in range(3):
            x, y = tiles(g)
            loss = F.cross_entropy(model(x), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            schedule.step()
        committee.admit(model)
        print("cycle", cycle, "loss", loss.item())
    print("members", len(committee.members), "votes", tuple(committee.vote(tiles(g)[0]).shape))


main()
