"""PPO for curling: weight, line and turn of the stone from a picture of the sheet. 24 simulated rinks side by side."""
import sys

import torch
import torch.nn as nn
from torch.distributions import Normal

RINKS, STEPS, GAMMA, LAM, CLIP = 24, 80, 0.997, 0.95, 0.2
detach_policy = "--fixed" in sys.argv


class Sheets:
    """The simulated ice, on the CPU."""

    def __init__(self, n, seed):
        self.n, self.g = n, torch.Generator().manual_seed(seed)

    def reset(self):
        return torch.rand(self.n, 3, 96, 48, generator=self.g)

    def step(self, shots):
        done = torch.rand(self.n, generator=self.g) < 1 / 16
        return torch.rand(self.n, 3, 96, 48, generator=self.g), torch.randn(self.n, generator=self.g), done.float()


class Skip(nn.Module):
    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(nn.Conv2d(3, 32, 5, 1, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 1, 1), nn.ReLU(), nn.MaxPool2d(4),
                                 nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Flatten(), nn.Linear(64 * 12 * 6, 256), nn.ReLU())
        self.mean, self.value = nn.Linear(256, 3), nn.Linear(256, 1)
        self.log_std = nn.Parameter(torch.zeros(3))

    def forward(self, sheet):
        h = self.see(sheet)
        return Normal(self.mean(h), self.log_std.exp(), validate_args=False), self.value(h).squeeze(-1)


class Buffer:
    FIELDS = ("sheets", "shots", "logp", "values", "rewards", "dones")

    def __init__(self):
        self.clear()

    def clear(self):
        for f in self.FIELDS:
            setattr(self, f, [])

    def add(self, **kw):
        for k, v in kw.items():
            getattr(self, k).append(v)

    def advantages(self, last):
        out, run = [], torch.zeros_like(last)
        nxt = last
        for r, d, v in zip(self.rewards[::-1], self.dones[::-1], self.values[::-1]):
            run = r + GAMMA * nxt.detach() * (1 - d) - v.detach() + GAMMA * LAM * (1 - d) * run
            out.append(run)
            nxt = v
        return torch.stack(out[::-1]).flatten()


skip, ice, buffer = Skip().cuda(), Sheets(RINKS, 4), Buffer()
optimizer = torch.optim.Adam(skip.parameters(), lr=2.5e-4, eps=1e-5)
sheet = ice.reset()
for update in range(2):
    for _ in range(STEPS):
        with torch.set_grad_enabled(not detach_policy):
            policy, value = skip(sheet.cuda())
        shot = policy.sample()
        buffer.add(sheets=sheet, shots=shot, logp=policy.log_prob(shot).sum(-1), values=value)
        sheet, reward, done = ice.step(shot.cpu())
        buffer.add(rewards=reward.cuda(), dones=done.cuda())
    with torch.no_grad():
        adv = buffer.advantages(skip(sheet.cuda())[1])
    old, shots = torch.stack(buffer.logp).flatten().detach(), torch.stack(buffer.shots).flatten(0, 1)
    returns = adv + torch.stack(buffer.values).flatten().detach()
    sheets = torch.stack(buffer.sheets).flatten(0, 1)
    for epoch in range(2):
        for idx in torch.randperm(len(sheets), generator=ice.g).split(120):
            policy, value = skip(sheets[idx].cuda())
            here = idx.cuda()
            ratio = (policy.log_prob(shots[here]).sum(-1) - old[here]).exp()
            gain = torch.min(ratio * adv[here], ratio.clamp(1 - CLIP, 1 + CLIP) * adv[here]).mean()
            loss = -gain + 0.5 * (value - returns[here]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(skip.parameters(), 0.5)
            optimizer.step()
    buffer.clear()
    print("update", update, "loss", loss.item())
