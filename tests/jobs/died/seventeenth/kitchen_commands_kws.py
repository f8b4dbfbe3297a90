#!/usr/bin/env python3
# keyword spotting for a kitchen appliance; 35 commands, one second each, log-mel -> conv subsampling -> transformer
import argparse
import math

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--mels", type=int, default=64)
parser.add_argument("--dim", type=int, default=192)
parser.add_argument("--batch", type=int, default=768)
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()
if args.fixed:
    args.batch = 96


class Subsample(nn.Module):
    def __init__(self, mels, dim):
        super().__init__()
        self.c1 = nn.Conv2d(1, 32, 3, stride=(1, 2), padding=1)
        self.c2 = nn.Conv2d(32, 32, 3, stride=(1, 2), padding=1)
        self.out = nn.Linear(32 * (mels // 4), dim)

    def forward(self, x):
        x = F.gelu(self.c2(F.gelu(self.c1(x.unsqueeze(1)))))
        b, c, t, f = x.shape
        return self.out(x.permute(0, 2, 1, 3).reshape(b, t, c * f))


class KWS(nn.Module):
    def __init__(self, mels, dim, layers=6, commands=35):
        super().__init__()
        self.front = Subsample(mels, dim)
        pos = torch.arange(101).float()[:, None] * torch.exp(torch.arange(0, dim, 2).float() * (-math.log(1e4) / dim))
        self.register_buffer("pos", torch.cat([pos.sin(), pos.cos()], 1))
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(dim, commands)

    def forward(self, x):
        h = self.body(self.front(x) + self.pos)
        return self.head(h.mean(1))


def spec_augment(x):
    x = x.clone()
    x[:, 20:35] = 0
    x[:, :, 5:12] = 0
    return x


def main():
    g = torch.Generator().manual_seed(0)
    model = KWS(args.mels, args.dim).to("cuda")
    optim = torch.optim.AdamW(model.parameters(), lr=5e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(optim, 5e-4, total_steps=args.steps)
    for i in range(args.steps):
        mel = spec_augment(torch.randn(args.batch, 101, args.mels, generator=g)).to("cuda", non_blocking=True)
        label = torch.randint(0, 35, (args.batch,), generator=g).to("cuda", non_blocking=True)
        loss = F.cross_entropy(model(mel), label)
        optim.zero_grad(set_to_none=True)
        loss.backward()
        optim.step()
        sched.step()
        print(i, loss.item())


main()
