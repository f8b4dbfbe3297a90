"""Survival after surgery from lab values: a Cox model with a deep net, the risk sets written as an N x N mask over the whole cohort."""
import argparse
import math

import torch
import torch.nn as nn

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--patients", type=int, default=18000)
args = parser.parse_args()


def partial_likelihood(risk, time, event):
    """Negative log partial likelihood; risk, time, event: (N,)"""
    if args.fixed:
        order = torch.argsort(time, descending=True)
        risk, event = risk[order], event[order]
        log_sum = torch.logcumsumexp(risk, 0)
        return -((risk - log_sum) * event).sum() / event.sum().clamp(min=1)
    at_risk = time[None, :] >= time[:, None]
    table = risk[None, :].expand(len(risk), -1).masked_fill(~at_risk, -math.inf)
    log_sum = torch.logsumexp(table, 1)
    return -((risk - log_sum) * event).sum() / event.sum().clamp(min=1)


class Net(nn.Module):
    def __init__(self, labs=400, width=2048, depth=4):
        super().__init__()
        sizes = [labs] + [width] * depth
        self.layers = nn.ModuleList(nn.Sequential(nn.Linear(a, b), nn.BatchNorm1d(b), nn.SELU(), nn.Dropout(0.1)) for a, b in zip(sizes, sizes[1:]))
        self.risk = nn.Linear(width, 1, bias=False)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.risk(x).squeeze(-1)


cohort = torch.randn(args.patients, 400).cuda()
time, event = torch.rand(args.patients).cuda(), (torch.rand(args.patients) < 0.3).float().cuda()
net = Net().cuda()
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3)
for epoch in range(8):
    optimizer.zero_grad()
    loss = partial_likelihood(net(cohort), time, event)
    loss.backward()
    optimizer.step()
    print(epoch, float(loss))
