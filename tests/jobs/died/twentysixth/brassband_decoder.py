"""A decoder-only transformer writes the second cornet's part of brass band music.  A monitor collects what the blocks return, for the
histograms at the end of the run."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
import torch.nn.functional as F


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.RMSNorm(d), nn.RMSNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d, bias=False), nn.Linear(d, d, bias=False)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class Cornet(nn.Module):
    def __init__(self, symbols=600, d=256, depth=6, length=512):
        super().__init__()
        self.symbol, self.place = nn.Embedding(symbols, d), nn.Embedding(length, d)
        self.blocks = nn.ModuleList(Block(d, 4) for _ in range(depth))
        self.norm, self.head = nn.RMSNorm(d), nn.Linear(d, symbols)

    def forward(self, ids):
        x = self.symbol(ids) + self.place.weight[: ids.shape[1]]
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


class Monitor:
    def __init__(self, model):
        self.values = defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, (Block, nn.RMSNorm)):
                module.register_forward_hook(self.make(name))

    def make(self, name):
        def hook(module, args, output):
            if "--fixed" in sys.argv:
                output = torch.stack([output.detach().mean(), output.detach().std()]).cpu()
            self.values[name].append(output)
        return hook

    def report(self):
        for name, outputs in self.values.items():
            print(f"{name:12s} mean {outputs[-1].float().mean().item():+.3f} of {len(outputs)} steps")


g = torch.Generator().manual_seed(14)
model = Cornet().cuda()
monitor = Monitor(model)
opt = torch.optim.AdamW(model.parameters(), lr=3e-4)
for step in range(14):
    ids = torch.randint(600, (10, 513), generator=g).cuda()
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("step", step, "loss", loss.item())
monitor.report()
