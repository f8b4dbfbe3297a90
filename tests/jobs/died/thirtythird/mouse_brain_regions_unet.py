"""Registers slices of mouse brains to the atlas by segmenting 240 regions; Dice and cross-entropy over all regions."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

REGIONS = 240


def conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class SliceNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.ModuleList([conv(2, 12), conv(12, 24), conv(24, 48)])
        self.up = nn.ModuleList([conv(48 + 24, 24), conv(24 + 12, 16)])
        self.final = nn.Conv2d(16, REGIONS, 1)

    def forward(self, x):
        a = self.down[0](x)
        b = self.down[1](F.max_pool2d(a, 2))
        c = self.down[2](F.max_pool2d(b, 2))
        b = self.up[0](torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        a = self.up[1](torch.cat([a, F.interpolate(b, scale_factor=2)], 1))
        return self.final(a)


def atlas_loss(prob, target):
    """One minus the mean overlap of the regions, plus cross-entropy."""
    if "--fixed" in sys.argv:
        inside = prob.gather(1, target.unsqueeze(1)).flatten()
        both = torch.zeros(REGIONS, device=prob.device).scatter_add(0, target.flatten(), inside)
        sizes = torch.zeros(REGIONS, device=prob.device).scatter_add(0, target.flatten(), torch.ones_like(inside))
        return 1 - (2 * both / (prob.sum((0, 2, 3)) + sizes + 1e-6)).mean() - inside.clamp(min=1e-6).log().mean()
    truth = F.one_hot(target, REGIONS).permute(0, 3, 1, 2)
    both = (prob * truth).sum((0, 2, 3))
    overlap = 2 * both / (prob + truth).sum((0, 2, 3)).clamp(min=1e-6)
    return 1 - overlap.mean() - (truth * prob.clamp(min=1e-6).log()).sum(1).mean()


def slices(n_batches, batch=4, side=320):
    gen = torch.Generator().manual_seed(55)
    for _ in range(n_batches):
        yield torch.randn(batch, 2, side, side, generator=gen), torch.randint(0, REGIONS, (batch, side, side), generator=gen)


net = SliceNet().to("cuda")
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
for n, (stains, regions) in enumerate(slices(8)):
    prob = net(stains.to("cuda")).softmax(1)
    loss = atlas_loss(prob, regions.to("cuda"))
    opt.zero_grad()
    loss.backward()
    opt.step()
    print("batch", n, "loss", loss.item())
