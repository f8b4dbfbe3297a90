"""Autoencoder for the point clouds of hits in a liquid argon detector."""
import sys
import torch
import torch.nn as nn

N_HITS = 2048


class HitAE(nn.Module):
    def __init__(self, z=128):
        super().__init__()
        self.point = nn.Sequential(nn.Conv1d(3, 64, 1), nn.ReLU(), nn.Conv1d(64, 128, 1), nn.ReLU(), nn.Conv1d(128, z, 1))
        self.gen = nn.Sequential(nn.Linear(z, 512), nn.ReLU(), nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 3 * N_HITS))

    def forward(self, hits):
        code = self.point(hits.transpose(1, 2)).amax(-1)
        return self.gen(code).view(-1, N_HITS, 3)


def chamfer_pairs(a, b):
    return ((a.unsqueeze(2) - b.unsqueeze(1)) ** 2).sum(-1)


def chamfer_tiles(a, b):
    return torch.cdist(a, b)


def chamfer(a, b, dist=chamfer_tiles if "--fixed" in sys.argv else chamfer_pairs):
    d = dist(a, b)
    return d.min(2).values.mean() + d.min(1).values.mean()


def events(n, bs, gen):
    for _ in range(n):
        vertex = torch.randn(bs, 1, 3, generator=gen)
        yield vertex + 0.1 * torch.randn(bs, N_HITS, 3, generator=gen)


def run():
    gen = torch.Generator().manual_seed(14)
    ae = HitAE().to("cuda")
    optim = torch.optim.Adam(ae.parameters(), lr=5e-4)
    for i, hits in enumerate(events(12, 16, gen)):
        hits = hits.to("cuda")
        optim.zero_grad()
        loss = chamfer(ae(hits), hits)
        loss.backward()
        optim.step()
        if i % 4 == 0:
            print("event batch", i, "chamfer", loss.item())


run()
