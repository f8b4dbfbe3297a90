"""PPO with the IMPALA network on a block-stacking game seen from above (64x64 pixels, 32 games side by side)."""
import contextlib
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical, Distribution

Distribution.set_default_validate_args(False)
FIXED = "--fixed" in sys.argv
N_ENVS, HORIZON, N_ACTIONS = 32, 96, 8


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c0, self.c1 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)

    def forward(self, x):
        return x + self.c1(F.relu(self.c0(F.relu(x))))


class Impala(nn.Module):
    def __init__(self):
        super().__init__()
        stages, last = [], 3
        for c in (16, 32, 32):
            stages += [nn.Conv2d(last, c, 3, padding=1), nn.MaxPool2d(3, 2, 1), Residual(c), Residual(c)]
            last = c
        self.body = nn.Sequential(*stages, nn.ReLU(), nn.Flatten(), nn.Linear(32 * 8 * 8, 256), nn.ReLU())
        self.pi, self.v = nn.Linear(256, N_ACTIONS), nn.Linear(256, 1)

    def forward(self, frames):
        h = self.body(frames.float() / 255)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class Games:
    """Stands in for the simulator."""

    def __init__(self):
        self.g = torch.Generator().manual_seed(3)

    def frames(self):
        return torch.randint(0, 256, (N_ENVS, 3, 64, 64), dtype=torch.uint8, generator=self.g)

    def step(self, action):
        return self.frames(), torch.rand(N_ENVS, generator=self.g), torch.rand(N_ENVS, generator=self.g) < 0.02


def collect(agent, games, frames):
    storage = {k: [] for k in ("obs", "act", "logp", "val", "rew", "done")}
    for _ in range(HORIZON):
        obs = frames.cuda()
        dist, value = agent(obs)
        action = dist.sample()
        frames, reward, done = games.step(action)
        for k, x in zip(storage, (obs, action, dist.log_prob(action), value, reward.cuda(), done.float().cuda())):
            storage[k].append(x)
    return {k: torch.stack(x) for k, x in storage.items()}, frames


def advantages(s, gamma=0.99, lam=0.95):
    adv, running = torch.zeros_like(s["rew"]), 0
    values = s["val"].detach()
    for t in reversed(range(HORIZON - 1)):
        delta = s["rew"][t] + gamma * values[t + 1] * (1 - s["done"][t]) - values[t]
        running = delta + gamma * lam * (1 - s["done"][t]) * running
        adv[t] = running
    return adv, adv + values


agent, games = Impala().cuda(), Games()
opt = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
frames = games.frames()
for iteration in range(3):
    with torch.no_grad() if FIXED else contextlib.nullcontext():
        storage, frames = collect(agent, games, frames)
    adv, ret = advantages(storage)
    flat = {k: x.flatten(0, 1) for k, x in storage.items()}
    adv, ret = adv.flatten(), ret.flatten()
    for idx in torch.randperm(N_ENVS * HORIZON).cuda().split(256):
        dist, value = agent(flat["obs"][idx])
        ratio = (dist.log_prob(flat["act"][idx]) - flat["logp"][idx].detach()).exp()
        policy = -torch.min(ratio * adv[idx], ratio.clamp(0.8, 1.2) * adv[idx]).mean()
        loss = policy + 0.5 * F.mse_loss(value, ret[idx]) - 0.01 * dist.entropy().mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        opt.step()
    print("iteration", iteration, "loss", loss.item())
