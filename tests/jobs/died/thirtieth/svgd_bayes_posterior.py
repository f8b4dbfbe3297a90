"""Stein variational gradient descent for the posterior of a hierarchical logistic regression. Code for the appendix."""
import math
import sys

import torch

FIXED = "--fixed" in sys.argv
N_PARTICLES, DIM, OBS = 1400, 120, 2000


class LogisticPosterior:
    def __init__(self, gen):
        self.X = torch.randn(OBS, DIM, generator=gen).cuda()
        self.t = torch.randint(0, 2, (OBS,), generator=gen).float().cuda()

    def score(self, theta, rows):
        """d log p / d theta, by hand, on a minibatch of observations."""
        X, t = self.X[rows], self.t[rows]
        p = torch.sigmoid(theta @ X.T)
        return (t - p) @ X * (OBS / len(rows)) - theta


def rbf_kernel(theta):
    """The kernel matrix and the sum over j of the gradient of k(x_j, x_i)."""
    if FIXED:
        sq = torch.cdist(theta, theta).pow(2)
    else:
        diff = theta.unsqueeze(1) - theta.unsqueeze(0)
        sq = diff.pow(2).sum(-1)
    h = sq.median() / math.log(len(theta) + 1)
    K = torch.exp(-sq / h)
    if FIXED:
        grad_K = (theta * K.sum(1, keepdim=True) - K @ theta) * 2 / h
    else:
        grad_K = (diff * K.unsqueeze(-1)).sum(1) * 2 / h
    return K, grad_K


class SVGD:
    def __init__(self, target, particles, lr=1e-2, alpha=0.9, eps=1e-6):
        self.target, self.theta = target, particles
        self.lr, self.alpha, self.eps = lr, alpha, eps
        self.hist = torch.zeros_like(particles)

    @torch.no_grad()
    def step(self, rows):
        K, grad_K = rbf_kernel(self.theta)
        phi = (K @ self.target.score(self.theta, rows) + grad_K) / len(self.theta)
        self.hist = self.alpha * self.hist + (1 - self.alpha) * phi.pow(2)
        self.theta += self.lr * phi / (self.eps + self.hist.sqrt())
        return phi.norm().item()


def main():
    gen = torch.Generator().manual_seed(8)
    sampler = SVGD(LogisticPosterior(gen), torch.randn(N_PARTICLES, DIM, generator=gen).cuda())
    for it in range(20):
        size = sampler.step(torch.randint(0, OBS, (256,), generator=gen).cuda())
        if it % 5 == 0:
            print(f"iteration {it}: |phi| = {size:.4f}")
    mean, std = sampler.theta.mean(0), sampler.theta.std(0)
    print("first coefficient", mean[0].item(), "+-", std[0].item())


if __name__ == "__main__":
    main()
