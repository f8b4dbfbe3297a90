"""Ages of stars from their rotation: an MLP on colour, period, amplitude and metallicity, with an error bar (Gaussian likelihood).

The table has 16,000 stars, so there is no need for mini-batches.
"""
import sys

import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(4)
N_STARS, N_FEATURES = 16000, 9


def load_catalogue():
    features = rng.normal(size=(N_STARS, N_FEATURES)).astype(np.float32)
    age = rng.gamma(2.0, 2.0, size=N_STARS).astype(np.float32)
    features = (features - features.mean(0)) / features.std(0)
    return torch.from_numpy(features), torch.from_numpy(np.log(age))


class AgeNet(nn.Module):
    def __init__(self, hidden=128, dropout=0.1):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(N_FEATURES, hidden), nn.ReLU(), nn.Dropout(dropout),
                                   nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(dropout))
        self.mean, self.log_var = nn.Linear(hidden, 1), nn.Linear(hidden, 1)

    def forward(self, x):
        h = self.trunk(x)
        return self.mean(h), self.log_var(h)


def negative_log_likelihood(mean, log_var, age):
    return 0.5 * (log_var + (age - mean) ** 2 / log_var.exp()).mean()


def fit(x, y, epochs=15):
    net = AgeNet().cuda()
    opt = torch.optim.Adam(net.parameters(), lr=3e-3)
    sched = torch.optim.lr_scheduler.StepLR(opt, 5, 0.5)
    x, y = x.cuda(), y.cuda()
    if "--fixed" in sys.argv:
        y = y.unsqueeze(1)
    for epoch in range(epochs):
        mean, log_var = net(x)
        loss = negative_log_likelihood(mean, log_var, y)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if epoch % 5 == 0:
            print("epoch", epoch, "nll", loss.item())
    return net


features, log_age = load_catalogue()
split = int(0.9 * N_STARS)
net = fit(features[:split], log_age[:split])
net.eval()
with torch.no_grad():
    mean, log_var = net(features[split:].cuda())
print("median error bar", log_var.mul(0.5).exp().cpu().median().item(), "dex for", len(mean), "stars")
