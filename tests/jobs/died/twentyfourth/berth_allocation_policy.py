"""PPO for a container terminal: which berth and crane a ship gets. 128 simulated quays run side by side on the CPU."""
import contextlib
import sys
from typing import NamedTuple

import torch
import torch.nn as nn
from torch.distributions import Categorical

FIXED = "--fixed" in sys.argv
QUAYS, HORIZON, ACTIONS = 128, 40, 24


class Quays:
    """The simulator: the occupancy of berths over hours as a picture with six layers."""

    def __init__(self, seed=0):
        self.g = torch.Generator().manual_seed(seed)

    def observe(self):
        return torch.rand(QUAYS, 6, 32, 32, generator=self.g)

    def step(self, actions):
        assert len(actions) == QUAYS
        return self.observe(), -torch.rand(QUAYS, generator=self.g)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(6, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 256, 256), nn.ReLU())
        self.actor, self.critic = nn.Linear(256, ACTIONS), nn.Linear(256, 1)

    def forward(self, obs):
        h = self.body(obs)
        return Categorical(logits=self.actor(h), validate_args=False), self.critic(h).squeeze(-1)


class Transition(NamedTuple):
    obs: torch.Tensor
    action: torch.Tensor
    log_prob: torch.Tensor
    value: torch.Tensor
    reward: torch.Tensor


class Collector:
    def __init__(self, env, agent):
        self.env, self.agent, self.obs = env, agent, env.observe()

    def collect(self, horizon):
        buffer = []
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            for _ in range(horizon):
                policy, value = self.agent(self.obs.cuda())
                action = policy.sample()
                after, reward = self.env.step(action.cpu())
                buffer.append(Transition(self.obs, action, policy.log_prob(action), value, reward))
                self.obs = after
        return buffer


def advantages(buffer, gamma=0.99, lam=0.95):
    values = torch.stack([t.value.detach().cpu() for t in buffer])
    adv, running = torch.zeros_like(values), 0.0
    for t in reversed(range(len(buffer) - 1)):
        delta = buffer[t].reward + gamma * values[t + 1] - values[t]
        adv[t] = running = delta + gamma * lam * running
    return adv, adv + values


agent = ActorCritic().cuda()
optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)
collector = Collector(Quays(), agent)
for iteration in range(2):
    rollout = collector.collect(HORIZON)
    adv, returns = advantages(rollout)
    for t in torch.randperm(HORIZON, generator=torch.Generator().manual_seed(iteration)).tolist():
        item, a = rollout[t], adv[t].cuda()
        policy, value = agent(item.obs.cuda())
        ratio = (policy.log_prob(item.action) - item.log_prob.detach()).exp()
        loss = -torch.min(ratio * a, ratio.clamp(0.8, 1.2) * a).mean() + 0.5 * (value - returns[t].cuda()).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("iteration", iteration, "loss", loss.item())
