"""Quantiles of pension payouts from members' records; all records of one fund are one batch."""
import sys

import torch
import torch.nn as nn

fund_size = 9000
n_features = 42


def fund(seed):
    g = torch.Generator().manual_seed(seed)
    features = torch.randn(fund_size, n_features, generator=g)
    payout = features[:, :5].exp().sum(1)
    if "--fixed" in sys.argv:
        payout = payout.unsqueeze(1)
    return features.cuda(), payout.cuda()


class PinballLoss(nn.Module):
    def __init__(self, quantile):
        super().__init__()
        self.quantile = quantile

    def forward(self, prediction, payout):
        difference = payout - prediction
        return torch.maximum(self.quantile * difference, (self.quantile - 1) * difference).mean()


class PayoutNet(nn.Module):
    def __init__(self, hidden=512):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(n_features, hidden), nn.SELU(), nn.AlphaDropout(0.05), nn.Linear(hidden, hidden), nn.SELU(),
                                    nn.Linear(hidden, 1))

    def forward(self, x):
        return self.layers(x)


net = PayoutNet().cuda()
criterion = PinballLoss(0.9)
opt = torch.optim.RMSprop(net.parameters(), lr=5e-4)
for epoch in range(3):
    for seed in range(4):
        x, y = fund(seed)
        opt.zero_grad()
        loss = criterion(net(x), y)
        loss.backward()
        opt.step()
    print("epoch %d  pinball %.4f" % (epoch, loss.item()))
