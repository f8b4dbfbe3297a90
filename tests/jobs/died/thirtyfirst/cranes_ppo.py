"""Port automation: PPO for the swing control of container cranes from camera frames."""
import sys

import torch
import torch.nn as nn
from torch.distributions import Normal

NUM_ENVS, ROLLOUT, EPOCHS, MINIBATCH = 64, 72, 1, 512
dev = torch.device("cuda")


class CraneSim:
    """Stands in for the vectorised simulator."""

    def __init__(self, n):
        self.n, self.g = n, torch.Generator().manual_seed(1)

    def observe(self):
        return torch.randint(0, 256, (self.n, 4, 84, 84), dtype=torch.uint8, generator=self.g)

    def step(self, action):
        return self.observe(), torch.rand(self.n, generator=self.g)


class Agent(nn.Module):
    def __init__(self, act_dim=2):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
                                 nn.Flatten(), nn.Linear(3136, 256), nn.ReLU())
        self.mu, self.v = nn.Linear(256, act_dim), nn.Linear(256, 1)
        self.log_std = nn.Parameter(torch.zeros(act_dim))

    def act(self, obs, action=None):
        h = self.cnn(obs.float() / 255)
        dist = Normal(self.mu(h), self.log_std.exp(), validate_args=False)
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action).sum(-1), self.v(h).squeeze(-1)


class RolloutBuffer:
    def __init__(self):
        self.obs, self.actions, self.logp, self.values, self.rewards = [], [], [], [], []

    def add(self, obs, action, logp, value, reward):
        self.obs.append(obs)
        self.actions.append(action)
        self.logp.append(logp)
        self.values.append(value)
        self.rewards.append(reward)

    def tensors(self, gamma=0.99):
        ret, returns = torch.zeros(NUM_ENVS), []
        for r in reversed(self.rewards):
            ret = r + gamma * ret
            returns.insert(0, ret)
        returns = torch.stack(returns).flatten().to(dev)
        adv = returns - torch.cat(self.values).detach()
        return torch.cat(self.obs), torch.cat(self.actions), torch.cat(self.logp).detach(), returns, adv


def collect(agent, sim, obs):
    buf = RolloutBuffer()
    for _ in range(ROLLOUT):
        action, logp, value = agent.act(obs.to(dev))
        nxt, reward = sim.step(action.cpu())
        buf.add(obs, action, logp, value, reward)
        obs = nxt
    return buf, obs


if "--fixed" in sys.argv:
    collect = torch.no_grad()(collect)

agent, sim = Agent().to(dev), CraneSim(NUM_ENVS)
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
obs = sim.observe()
for update in range(2):
    buffer, obs = collect(agent, sim, obs)
    b_obs, b_act, b_logp, b_ret, b_adv = buffer.tensors()
    for idx in torch.randperm(len(b_obs)).split(MINIBATCH):
        gi = idx.to(dev)
        _, logp, value = agent.act(b_obs[idx].to(dev), b_act[gi])
        ratio = (logp - b_logp[gi]).exp()
        pg = -torch.min(ratio * b_adv[gi], ratio.clamp(0.8, 1.2) * b_adv[gi]).mean()
        loss = pg + 0.5 * (value - b_ret[gi]).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("update", update, "loss", loss.item())
