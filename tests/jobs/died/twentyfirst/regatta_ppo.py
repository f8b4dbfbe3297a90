"""PPO for a sailing game seen from above (4 stacked frames of 84x84); 48 boats sail at once."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class Args:
    n_envs: int = 48
    n_steps: int = 96
    n_updates: int = 2
    n_epochs: int = 2
    minibatch: int = 256
    clip: float = 0.2
    gamma: float = 0.99
    lam: float = 0.95


class Regatta:
    """Stands for the simulator: frames and rewards come from a generator."""

    def __init__(self, n, seed=5):
        self.n, self.g = n, torch.Generator().manual_seed(seed)

    def frames(self):
        return torch.randint(0, 256, (self.n, 4, 84, 84), generator=self.g, dtype=torch.uint8)

    def step(self, action):
        return self.frames(), torch.rand(self.n, generator=self.g), (torch.rand(self.n, generator=self.g) < 0.01).float()


class Sailor(nn.Module):
    def __init__(self, n_actions=9):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
                                   nn.Flatten(), nn.Linear(64 * 49, 512), nn.ReLU())
        self.pi, self.v = nn.Linear(512, n_actions), nn.Linear(512, 1)

    def forward(self, frames, action=None):
        h = self.trunk(frames.float() / 255)
        dist = Categorical(logits=self.pi(h), validate_args=False)
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), self.v(h).squeeze(-1)


def collect(sailor, env, frames, args):
    store = {k: [] for k in ("frames", "actions", "logps", "values", "rewards", "dones")}
    for _ in range(args.n_steps):
        action, logp, _, value = sailor(frames.cuda())
        following, reward, done = env.step(action)
        for key, item in zip(store, (frames, action, logp, value, reward.cuda(), done.cuda())):
            store[key].append(item)
        frames = following
    return {k: torch.stack(v) for k, v in store.items()}, frames


if "--fixed" in sys.argv:
    collect = torch.no_grad()(collect)


def advantages(s, args):
    values, out, last = s["values"].detach(), torch.zeros_like(s["rewards"]), 0
    for t in reversed(range(args.n_steps - 1)):
        delta = s["rewards"][t] + args.gamma * values[t + 1] * (1 - s["dones"][t]) - values[t]
        last = delta + args.gamma * args.lam * (1 - s["dones"][t]) * last
        out[t] = last
    return out, out + values


args = Args()
env, sailor = Regatta(args.n_envs), Sailor().cuda()
optimizer = torch.optim.Adam(sailor.parameters(), lr=2.5e-4, eps=1e-5)
frames = env.frames()
for update in range(args.n_updates):
    store, frames = collect(sailor, env, frames, args)
    adv, ret = (t.flatten() for t in advantages(store, args))
    obs, acts, old = store["frames"].flatten(0, 1), store["actions"].flatten(), store["logps"].flatten().detach()
    for _ in range(args.n_epochs):
        for idx in torch.randperm(len(obs)).split(args.minibatch):
            _, logp, ent, value = sailor(obs[idx].cuda(), acts[idx.cuda()])
            ratio, a = (logp - old[idx.cuda()]).exp(), adv[idx.cuda()]
            pg = -torch.min(ratio * a, ratio.clamp(1 - args.clip, 1 + args.clip) * a).mean()
            loss = pg + 0.5 * (value - ret[idx.cuda()]).pow(2).mean() - 0.01 * ent.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(sailor.parameters(), 0.5)
            optimizer.step()
    print("update", update, "loss", loss.item())
