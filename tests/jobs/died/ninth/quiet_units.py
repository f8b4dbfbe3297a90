"""Classifies clouds from weather cameras and watches which units stay silent: hooks on activation functions, a summary for each epoch."""
import argparse
from collections import defaultdict

import torch
import torch.nn.functional as F
from torch import nn


class ConvNeXtBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.depth = nn.Conv2d(dim, dim, 7, 1, 3, groups=dim)
        self.norm = nn.GroupNorm(1, dim)
        self.widen, self.act, self.narrow = nn.Conv2d(dim, 3 * dim, 1), nn.ReLU(), nn.Conv2d(3 * dim, dim, 1)

    def forward(self, x):
        return x + self.narrow(self.act(self.widen(self.norm(self.depth(x)))))


def cloud_net(kinds, dims=(32, 64, 128), depth=2):
    layers, cin = [], 3
    for i, dim in enumerate(dims):
        stride = 4 if i == 0 else 2
        layers += [nn.Conv2d(cin, dim, stride, stride), *[ConvNeXtBlock(dim) for _ in range(depth)]]
        cin = dim
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(cin, kinds))


class SilentUnits:
    """How often each channel is zero."""

    def __init__(self, model, reduce):
        self.reduce, self.seen = reduce, defaultdict(list)
        for name, module in model.named_modules():
            if isinstance(module, nn.ReLU):
                module.register_forward_hook(self.hook(name))

    def hook(self, name):
        def remember(module, inputs, output):
            output = output.detach()
            if self.reduce:
                output = (output == 0).float().mean((0, 2, 3)).cpu()
            self.seen[name].append(output)
        return remember

    def summary(self):
        for name, outputs in self.seen.items():
            if not self.reduce:
                outputs = [(o == 0).float().mean((0, 2, 3)) for o in outputs]
            silent = torch.stack(outputs).mean(0)
            yield name, silent.max().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    fixed = parser.parse_args().fixed
    model = cloud_net(10).cuda()
    units = SilentUnits(model, reduce=fixed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.05)
    for i in range(10):
        sky, kind = torch.zeros(24, 3, 160, 160), torch.randint(0, 10, (24,))
        loss = F.cross_entropy(model(sky.cuda()), kind.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("batch", i, "loss", loss.item())
    for name, share in units.summary():
        print(name, "at most %.2f silent" % share)


main()
