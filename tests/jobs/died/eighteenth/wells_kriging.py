"""Gaussian process over groundwater wells: nitrate from position, depth, distance to fields and rain; ARD kernel fitted by likelihood."""
import sys

import torch
from torch import nn

N_WELLS, N_FEATURES = 5000, 7


def squared_distances(a, b):
    if "--fixed" in sys.argv:
        return (a.square().sum(1)[:, None] + b.square().sum(1)[None] - 2 * a @ b.T).clamp_min(0)
    return (a[:, None, :] - b[None, :, :]).pow(2).sum(-1)


class ExactGP(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.log_length = nn.Parameter(torch.zeros(features))
        self.log_amplitude = nn.Parameter(torch.zeros(()))
        self.log_noise = nn.Parameter(torch.tensor(-2.0))
        self.mean = nn.Parameter(torch.zeros(()))

    def kernel(self, a, b):
        scale = self.log_length.exp()
        return self.log_amplitude.exp() * torch.exp(-0.5 * squared_distances(a / scale, b / scale))

    def covariance(self, x):
        return self.kernel(x, x) + (self.log_noise.exp() + 1e-4) * torch.eye(len(x), device=x.device)

    def surrogate(self, x, y):
        """Has the gradient of the negative log-likelihood: solves by conjugate gradients, the trace by one probe."""
        cov, rest = self.covariance(x), y - self.mean
        probe = torch.randint(0, 2, (len(y),)).mul(2).sub(1).float().to(x.device)
        alpha, beta = solve(cov.detach(), torch.stack([rest.detach(), probe], 1)).unbind(1)
        moved = cov @ torch.stack([alpha, probe], 1)
        return alpha @ rest - 0.5 * alpha @ moved[:, 0] + 0.5 * beta @ moved[:, 1]

    @torch.no_grad()
    def predict(self, x, y, new):
        weights = solve(self.covariance(x), (y - self.mean)[:, None])
        return self.mean + (self.kernel(new, x) @ weights).squeeze(1)


@torch.no_grad()
def solve(matrix, right, iterations=20):
    x, r = torch.zeros_like(right), right.clone()
    p, rr = r.clone(), r.square().sum(0)
    for _ in range(iterations):
        mp = matrix @ p
        step = rr / (p * mp).sum(0).clamp_min(1e-12)
        x, r = x + step * p, r - step * mp
        before, rr = rr, r.square().sum(0)
        p = r + rr / before.clamp_min(1e-12) * p
    return x


def main():
    rng = torch.Generator().manual_seed(21)
    wells = torch.randn(N_WELLS, N_FEATURES, generator=rng).cuda()
    nitrate = torch.randn(N_WELLS, generator=rng).cuda()
    gp = ExactGP(N_FEATURES).cuda()
    optimizer = torch.optim.Adam(gp.parameters(), lr=0.05)
    for iteration in range(8):
        optimizer.zero_grad()
        loss = gp.surrogate(wells, nitrate) / N_WELLS
        loss.backward()
        optimizer.step()
        print(f"{iteration:3d}  objective {loss.item():9.4f}  noise {gp.log_noise.exp().item():.4f}")
    grid = torch.randn(500, N_FEATURES, generator=rng).cuda()
    print("mean of the map:", gp.predict(wells, nitrate, grid).mean().item())


main()
