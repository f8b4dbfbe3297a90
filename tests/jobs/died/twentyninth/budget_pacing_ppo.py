"""PPO for pacing the budgets of campaigns over a day: 4096 simulated campaigns, 48 half hours."""
import contextlib
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


@dataclass(frozen=True)
class PacingConfig:
    campaigns: int = 4096
    slots: int = 48
    observation: int = 40
    hidden: int = 512
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    epochs: int = 2
    minibatches: int = 16
    updates: int = 2


class PacingSimulator:
    def __init__(self, cfg, device):
        g = torch.Generator().manual_seed(21)
        self.drift = torch.randn(cfg.observation, cfg.observation, generator=g).to(device) * 0.05
        self.push = torch.randn(1, cfg.observation, generator=g).to(device)
        self.start = torch.randn(cfg.campaigns, cfg.observation, generator=g).to(device)

    def reset(self):
        self.state = self.start.clone()
        return self.state

    def step(self, bid):
        self.state = torch.tanh(self.state + self.state @ self.drift + bid @ self.push * 0.1)
        return self.state, self.state[:, 0] - 0.1 * bid.squeeze(-1).pow(2)


class ActorCritic(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        h = cfg.hidden
        self.body = nn.Sequential(nn.Linear(cfg.observation, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh(), nn.Linear(h, h), nn.Tanh())
        self.mean, self.value = nn.Linear(h, 1), nn.Linear(h, 1)
        self.log_std = nn.Parameter(torch.zeros(1))

    def forward(self, obs):
        h = self.body(obs)
        return torch.distributions.Normal(self.mean(h), self.log_std.exp(), validate_args=False), self.value(h).squeeze(-1)


class Agent:
    def __init__(self, cfg, device="cuda"):
        self.cfg, self.sim = cfg, PacingSimulator(cfg, device)
        self.policy = ActorCritic(cfg).to(device)
        self.optim = torch.optim.Adam(self.policy.parameters(), lr=3e-4)

    def collect(self):
        buffer = {key: [] for key in ("obs", "act", "logp", "val", "rew")}
        obs = self.sim.reset()
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            for _ in range(self.cfg.slots):
                dist, value = self.policy(obs)
                bid = dist.sample()
                following, reward = self.sim.step(bid)
                for key, item in zip(buffer, (obs, bid, dist.log_prob(bid).squeeze(-1), value, reward)):
                    buffer[key].append(item)
                obs = following
        return {key: torch.stack(items) for key, items in buffer.items()}

    def advantages(self, data):
        value, reward, last, out = data["val"].detach(), data["rew"], 0, []
        for t in reversed(range(self.cfg.slots)):
            ahead = value[t + 1] if t + 1 < self.cfg.slots else 0
            last = reward[t] + self.cfg.gamma * ahead - value[t] + self.cfg.gamma * self.cfg.lam * last
            out.append(last)
        return torch.stack(out[::-1])

    def update(self, data):
        adv = self.advantages(data)
        returns = (adv + data["val"].detach()).flatten()
        obs, act, old, adv = data["obs"].flatten(0, 1), data["act"].flatten(0, 1), data["logp"].detach().flatten(), adv.flatten()
        for _ in range(self.cfg.epochs):
            for rows in torch.randperm(len(obs)).chunk(self.cfg.minibatches):
                rows = rows.cuda()
                dist, value = self.policy(obs[rows])
                ratio = (dist.log_prob(act[rows]).squeeze(-1) - old[rows]).exp()
                gain = torch.min(ratio * adv[rows], ratio.clamp(1 - self.cfg.clip, 1 + self.cfg.clip) * adv[rows])
                loss = -gain.mean() + 0.5 * (value - returns[rows]).pow(2).mean()
                self.optim.zero_grad()
                loss.backward()
                self.optim.step()
        return loss.item()


agent = Agent(PacingConfig())
for update in range(agent.cfg.updates):
    print("update", update, "loss", agent.update(agent.collect()))
