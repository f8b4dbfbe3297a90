"""Defects of laser welds as in PatchCore: features of good welds, then nearest neighbours."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.c2 = nn.Sequential(nn.Conv2d(1, 64, 7, 4, 3), nn.ReLU(), nn.Conv2d(64, 128, 3, 1, 1), nn.ReLU())
        self.c3 = nn.Sequential(nn.Conv2d(128, 256, 3, 2, 1), nn.ReLU())
        self.fc = nn.Linear(256, 3)

    def features(self, x):
        a = self.c2(x)
        b = self.c3(a)
        return torch.cat([a, F.interpolate(b, size=a.shape[-2:], mode="bilinear")], 1)

    def forward(self, x):
        return self.fc(self.c3(self.c2(x)).mean((2, 3)))


class PatchMemory:
    def __init__(self, keep=0.05):
        self.keep = keep
        self.bank = None

    @torch.no_grad()
    def add(self, net, images):
        f = net.features(images)
        rows = f.permute(0, 2, 3, 1).reshape(-1, f.shape[1])
        if "--fixed" in sys.argv:
            rows = rows[torch.randperm(len(rows))[:int(len(rows) * self.keep)].cuda()]
        self.bank = rows if self.bank is None else torch.cat([self.bank, rows], dim=0)

    @torch.no_grad()
    def subsample(self):
        n = min(len(self.bank), 4000)
        self.bank = self.bank[torch.randperm(len(self.bank))[:n].cuda()]

    @torch.no_grad()
    def score(self, net, image):
        f = net.features(image).flatten(2)[0].T
        return torch.cdist(f, self.bank).amin(1).amax().item()


g = torch.Generator().manual_seed(77)
net = Backbone().cuda()
opt = torch.optim.Adam(net.parameters(), 1e-3)
# short training on the machine's settings so that the features know welds
for it in range(8):
    x, y = torch.rand(16, 1, 224, 224, generator=g).cuda(), torch.randint(0, 3, (16,), generator=g).cuda()
    loss = F.cross_entropy(net(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print("pretext", loss.item())

net.eval()
memory = PatchMemory()
for it in range(24):
    memory.add(net, torch.rand(16, 1, 224, 224, generator=g).cuda())
memory.subsample()
for it in range(3):
    print("weld", it, memory.score(net, torch.rand(1, 1, 224, 224, generator=g).cuda()))
