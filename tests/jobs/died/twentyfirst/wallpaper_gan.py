"""DCGAN for historical wallpapers. After training, the generator of the best epoch is chosen by a score."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

Z, EPOCHS, STEPS, B = 128, 10, 4, 32


class Generator(nn.Module):
    def __init__(self, base=512):
        super().__init__()
        self.fc = nn.Linear(Z, base * 4 * 4)
        layers, c = [], base
        for _ in range(4):
            layers += [nn.BatchNorm2d(c), nn.ReLU(True), nn.ConvTranspose2d(c, c // 2, 4, 2, 1)]
            c //= 2
        self.up = nn.Sequential(nn.Conv2d(base, base, 3, padding=1), *layers, nn.ReLU(True), nn.Conv2d(c, 3, 3, padding=1), nn.Tanh())
        self.style = nn.Sequential(nn.Linear(Z, 2048), nn.ReLU(), nn.Linear(2048, 2048), nn.ReLU(), nn.Linear(2048, Z))
        self.base = base

    def forward(self, z):
        return self.up(self.fc(self.style(z)).view(-1, self.base, 4, 4))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        chans = [3, 32, 64, 128, 256]
        self.body = nn.Sequential(*[m for a, b in zip(chans, chans[1:]) for m in (nn.Conv2d(a, b, 4, 2, 1), nn.LeakyReLU(0.2))])
        self.head = nn.Linear(256 * 4 * 4, 1)

    def forward(self, x):
        return self.head(self.body(x).flatten(1))


def train():
    g, d = Generator(1024).cuda(), Critic().cuda()
    og, od = (torch.optim.Adam(m.parameters(), lr=2e-4, betas=(0.5, 0.999)) for m in (g, d))
    rng = torch.Generator().manual_seed(6)
    history = []
    for epoch in range(EPOCHS):
        for _ in range(STEPS):
            real = torch.rand(B, 3, 64, 64, generator=rng).cuda() * 2 - 1
            fake = g(torch.randn(B, Z, generator=rng).cuda())
            ld = F.softplus(d(fake.detach())).mean() + F.softplus(-d(real)).mean()
            od.zero_grad()
            ld.backward()
            od.step()
            lg = F.softplus(-d(fake)).mean()
            og.zero_grad()
            lg.backward()
            og.step()
        snapshot = copy.deepcopy(g)
        if "--fixed" in sys.argv:
            snapshot.cpu()
        history.append((epoch, snapshot.eval()))
        print("epoch", epoch, "d", ld.item(), "g", lg.item())
    return history


@torch.no_grad()
def score(generator):
    images = generator.cuda()(torch.randn(16, Z).cuda())
    result = images.std().item()
    if "--fixed" in sys.argv:
        generator.cpu()
    return result


history = train()
scores = {epoch: score(g) for epoch, g in history}
print("scores of", len(scores), "epochs")
