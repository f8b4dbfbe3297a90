"""Formants of vowels from raw audio. We also want to see how the statistics of each layer drift while it trains (figure 3)."""
import sys
from collections import defaultdict

import torch
from torch import nn

SAVE_SCALARS = "--fixed" in sys.argv


class ConvModule(nn.Module):
    def __init__(self, d, kernel=15):
        super().__init__()
        self.norm = nn.LayerNorm(d)
        self.glu = nn.Sequential(nn.Conv1d(d, 2 * d, 1), nn.GLU(1))
        self.depth = nn.Sequential(nn.Conv1d(d, d, kernel, padding=kernel // 2, groups=d), nn.BatchNorm1d(d), nn.SiLU(), nn.Conv1d(d, d, 1))

    def forward(self, x):
        return x + self.depth(self.glu(self.norm(x).transpose(1, 2))).transpose(1, 2)


class FeedForward(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.SiLU(), nn.Linear(4 * d, d))

    def forward(self, x):
        return x + 0.5 * self.net(x)


class FormantNet(nn.Module):
    def __init__(self, d=144, depth=6):
        super().__init__()
        self.frontend = nn.Conv1d(1, d, 400, stride=80)
        self.layers = nn.ModuleList()
        for _ in range(depth):
            self.layers += [ConvModule(d), FeedForward(d)]
        self.out = nn.Linear(d, 3)

    def forward(self, wave):
        x = self.frontend(wave.unsqueeze(1)).transpose(1, 2)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


class LayerWatch:
    def __init__(self, model):
        self.trace = defaultdict(list)
        for name, module in model.layers.named_children():
            module.register_forward_hook(self.make(name))

    def make(self, name):
        def hook(module, inputs, output):
            if SAVE_SCALARS:
                self.trace[name].append((output.detach().mean().item(), output.detach().std().item()))
            else:
                self.trace[name].append(output)
        return hook

    def report(self):
        for name, seen in self.trace.items():
            pairs = [s if isinstance(s, tuple) else (s.mean().item(), s.std().item()) for s in seen]
            print("layer", name, len(pairs), "last mean", pairs[-1][0])


model = FormantNet().cuda()
watch = LayerWatch(model)
opt = torch.optim.Adam(model.parameters(), lr=3e-4)
gen = torch.Generator().manual_seed(31)
for step in range(36):
    wave = torch.rand(16, 16000, generator=gen).cuda() - 0.5
    formants = torch.rand(16, 196, 3, generator=gen).cuda()
    loss = nn.functional.huber_loss(model(wave), formants)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 6 == 0:
        print("step", step, "loss", loss.item())
watch.report()
