"""GAN that paints the seams of broken pottery from noise (WGAN with gradient penalty), 128 pixels."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
Z = 96


def up(i, o):
    return nn.Sequential(nn.Upsample(scale_factor=2), nn.Conv2d(i, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU(True),
                         nn.Conv2d(o, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU(True))


def down(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 4, 2, 1), nn.LeakyReLU(0.2, True))


class Painter(nn.Module):
    def __init__(self, w=48):
        super().__init__()
        self.seed = nn.Linear(Z, 8 * w * 16)
        self.ups = nn.Sequential(up(8 * w, 8 * w), up(8 * w, 4 * w), up(4 * w, 2 * w), up(2 * w, w), up(w, w))
        self.rgb = nn.Sequential(nn.Conv2d(w, 3, 3, 1, 1), nn.Tanh())

    def forward(self, z):
        return self.rgb(self.ups(self.seed(z).view(len(z), -1, 4, 4)))


class Critic(nn.Module):
    def __init__(self, w=48):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, w, 3, 1, 1), nn.LeakyReLU(0.2, True), down(w, 2 * w), down(2 * w, 4 * w), down(4 * w, 8 * w))
        self.score = nn.Linear(8 * w * 256, 1)

    def forward(self, x):
        return self.score(self.body(x).flatten(1)).squeeze(1)


class Studio:
    def __init__(self, batch=64):
        self.batch = batch
        self.G, self.D = Painter().cuda(), Critic().cuda()
        self.optG = torch.optim.Adam(self.G.parameters(), 1e-4, (0.0, 0.9))
        self.optD = torch.optim.Adam(self.D.parameters(), 4e-4, (0.0, 0.9))

    def noise(self):
        return torch.randn(self.batch, Z).cuda()

    def penalty(self, real, fake):
        share = torch.rand(len(real), 1, 1, 1).cuda()
        mixed = (share * real + (1 - share) * fake).detach().requires_grad_(True)
        slope, = torch.autograd.grad(self.D(mixed).sum(), mixed, create_graph=True)
        return ((slope.flatten(1).norm(dim=1) - 1) ** 2).mean()

    def critic_step(self, shards):
        if FIXED:
            with torch.no_grad():
                fake = self.G(self.noise())
        else:
            fake = self.G(self.noise())
        loss = self.D(fake).mean() - self.D(shards).mean() + 10 * self.penalty(shards, fake)
        self.optD.zero_grad()
        loss.backward()
        self.optD.step()
        return loss.item()

    def painter_step(self):
        for p in self.D.parameters():
            p.requires_grad_(False)
        loss = -self.D(self.G(self.noise())).mean()
        self.optG.zero_grad()
        loss.backward()
        self.optG.step()
        for p in self.D.parameters():
            p.requires_grad_(True)
        return loss.item()


if __name__ == "__main__":
    torch.manual_seed(5)
    studio = Studio()
    for step in range(10):
        d = studio.critic_step((torch.rand(64, 3, 128, 128) * 2 - 1).cuda())
        g = studio.painter_step() if step % 2 else float("nan")
        print(f"step {step}: critic {d:.3f} painter {g:.3f}")
