"""PPO for holding trains at stations: the policy reads the state of every train of the line with a small transformer."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
from torch.distributions import Categorical

FIXED = "--fixed" in sys.argv
TRAINS, FEATURES, ACTIONS = 48, 14, 5


class Dispatcher(nn.Module):
    def __init__(self, d=128, depth=3):
        super().__init__()
        self.inp = nn.Linear(FEATURES, d)
        self.blocks = nn.TransformerEncoder(nn.TransformerEncoderLayer(d, 4, 512, 0.0, batch_first=True), depth)
        self.pi, self.v = nn.Linear(d, ACTIONS), nn.Linear(d, 1)

    def forward(self, s):
        h = self.blocks(self.inp(s))
        return Categorical(logits=self.pi(h)), self.v(h.mean(1)).squeeze(-1)


class Line:
    """A crude simulator on the CPU: headways wander, holding costs time."""

    def __init__(self, n):
        self.s = torch.zeros(n, TRAINS, FEATURES)

    def step(self, a):
        self.s = 0.95 * self.s + 0.05 * torch.randn_like(self.s)
        return self.s, -self.s[..., 0].std(1) - 0.01 * a.float().mean(1)


def collect(net, line, horizon=16):
    rows = []
    s = line.s
    with torch.no_grad():
        for _ in range(horizon):
            dist, value = net(s.cuda())
            a = dist.sample()
            nxt, r = line.step(a.cpu() % ACTIONS)
            rows.append((s, a.cpu() % ACTIONS, dist.log_prob(a).sum(-1).cpu(), value.cpu(), r))
            s = nxt
    s, a, logp, v, r = (torch.cat(x) for x in zip(*rows))
    return s, a, logp, r - v


def update(net, opt, data, epochs=3, minibatch=256):
    s, a, logp_old, adv = (x.cuda() for x in data)
    for _ in range(epochs):
        for idx in torch.randperm(len(s)).split(minibatch):
            idx = idx.cuda()
            dist, v = net(s[idx])
            ratio = (dist.log_prob(a[idx]).sum(-1) - logp_old[idx]).exp()
            gain = torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
            loss = -gain + 0.5 * (v - adv[idx]).pow(2).mean() - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
    dist, _ = net(s)
    kl = (logp_old - dist.log_prob(a).sum(-1)).mean()
    return {"loss": loss.item(), "kl": kl.item() if FIXED else kl}


net = Dispatcher().cuda()
opt = torch.optim.Adam(net.parameters(), lr=3e-4)
line, curves = Line(32), defaultdict(list)
for iteration in range(10):
    for name, value in update(net, opt, collect(net, line)).items():
        curves[name].append(value)
    print(iteration, curves["loss"][-1])
print("mean kl", float(sum(curves["kl"]) / len(curves["kl"])))
