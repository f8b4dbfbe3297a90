"""Learns where a suction gripper can pick from a bin: a heat map for each scene, drawn from the labelled grasps in the collate step."""
import sys

import torch
import torch.nn as nn

SIDE, GRASPS = 224, 150


class HeatmapTargets:
    """Draws a Gaussian at each grasp; where several overlap, the highest counts."""

    def __init__(self, side, sigma, device):
        axis = torch.arange(side, dtype=torch.float32, device=device)
        self.grid = torch.stack(torch.meshgrid(axis, axis, indexing="ij"), -1)
        self.sigma = sigma

    def _draw(self, grasps):
        offset = self.grid - grasps[..., None, None, :]
        return torch.exp(-offset.pow(2).sum(-1) / (2 * self.sigma ** 2)).amax(-3)

    def __call__(self, grasps):
        if "--fixed" in sys.argv:
            return torch.stack([self._draw(scene) for scene in grasps])
        return self._draw(grasps)


class PickNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv2d(4, width, 5, stride=2, padding=2), nn.GroupNorm(4, width), nn.SiLU(),
            nn.Conv2d(width, 2 * width, 3, stride=2, padding=1), nn.GroupNorm(4, 2 * width), nn.SiLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1), nn.GroupNorm(4, 2 * width), nn.SiLU())
        self.decoder = nn.Sequential(nn.Conv2d(2 * width, 16, 3, padding=1), nn.PixelShuffle(4))

    def forward(self, rgbd):
        return self.decoder(self.encoder(rgbd)).squeeze(1)


def focal(logits, target):
    p = logits.sigmoid()
    positive = target.pow(4) * (1 - p).pow(2) * nn.functional.logsigmoid(logits)
    negative = (1 - target).pow(4) * p.pow(2) * nn.functional.logsigmoid(-logits)
    return -(positive + negative).mean()


class PickTrainer:
    def __init__(self, device="cuda"):
        self.device = device
        self.net = PickNet().to(device)
        self.targets = HeatmapTargets(SIDE, 3.0, device)
        self.optimizer = torch.optim.AdamW(self.net.parameters(), lr=1e-3)
        self.generator = torch.Generator().manual_seed(12)

    def scenes(self, count, batch=24):
        for _ in range(count):
            yield (torch.rand(batch, 4, SIDE, SIDE, generator=self.generator).to(self.device),
                   (torch.rand(batch, GRASPS, 2, generator=self.generator) * SIDE).to(self.device))

    def fit(self, epochs=2):
        for epoch in range(epochs):
            for rgbd, grasps in self.scenes(5):
                loss = focal(self.net(rgbd), self.targets(grasps))
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
            print("epoch", epoch, "focal loss", loss.item())


PickTrainer().fit()
