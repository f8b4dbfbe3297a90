"""PPO for a bank of lifts: a picture of floors by cabins goes in, the next floor for one cabin comes out."""
import sys

import torch
import torch.nn as nn
from torch.distributions import Categorical

ENVS, HORIZON, FLOORS, CABINS = 192, 48, 24, 12
DEVICE = "cuda"


class LiftBank:
    """Very simple building: people arrive at random, and a cabin's visit empties a floor."""

    def __init__(self, seed=0):
        self.rng = torch.Generator().manual_seed(seed)
        self.waiting = torch.zeros(ENVS, FLOORS)
        self.cabins = torch.zeros(ENVS, CABINS, dtype=torch.long)
        self.turn = 0

    def observe(self):
        where = nn.functional.one_hot(self.cabins, FLOORS).transpose(1, 2).float()
        return torch.stack([where, self.waiting[:, :, None].expand(-1, -1, CABINS)], 1)

    def step(self, floor):
        floor = floor.clamp(0, FLOORS - 1)
        self.cabins[:, self.turn % CABINS] = floor
        self.waiting.scatter_(1, floor[:, None], 0.0)
        self.waiting += torch.poisson(torch.full((ENVS, FLOORS), 0.05), generator=self.rng)
        self.turn += 1
        return self.observe(), -self.waiting.sum(1)


class ActorCritic(nn.Module):
    def __init__(self, w=64):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(2, w, 3, padding=1), nn.ReLU(), nn.Conv2d(w, w, 3, padding=1), nn.ReLU(),
                                  nn.Conv2d(w, w, 3, padding=1), nn.ReLU())
        self.trunk = nn.Sequential(nn.Flatten(), nn.Linear(w * FLOORS * CABINS // 4, 256), nn.Tanh())
        self.actor, self.critic = nn.Linear(256, FLOORS), nn.Linear(256, 1)

    def forward(self, obs):
        h = self.trunk(nn.functional.avg_pool2d(self.conv(obs), 2))
        return Categorical(logits=self.actor(h), validate_args=False), self.critic(h).squeeze(-1)


class PPO:
    def __init__(self):
        self.env, self.net = LiftBank(), ActorCritic().to(DEVICE)
        self.optim = torch.optim.Adam(self.net.parameters(), lr=2.5e-4, eps=1e-5)

    def collect(self):
        store = []
        obs = self.env.observe()
        for _ in range(HORIZON):
            dist, value = self.net(obs.to(DEVICE))
            action = dist.sample()
            following, reward = self.env.step(action.cpu())
            store.append((obs, action, dist.log_prob(action), value, reward.to(DEVICE)))
            obs = following
        return [torch.stack(x) for x in zip(*store)]

    def update(self, obs, action, logp, value, reward):
        returns, running = torch.zeros_like(reward), torch.zeros_like(reward[0])
        for t in reversed(range(HORIZON)):
            running = reward[t] + 0.99 * running
            returns[t] = running
        advantage = (returns - value).detach()
        obs, action, logp, returns, advantage = [x.flatten(0, 1) for x in (obs, action, logp.detach(), returns, advantage)]
        for index in torch.randperm(len(obs)).split(1024):
            dist, v = self.net(obs[index].to(DEVICE))
            gpu = index.to(DEVICE)
            ratio = (dist.log_prob(action[gpu]) - logp[gpu]).exp()
            gain = torch.min(ratio * advantage[gpu], ratio.clamp(0.8, 1.2) * advantage[gpu]).mean()
            loss = -gain + 0.5 * (v - returns[gpu]).pow(2).mean() - 0.01 * dist.entropy().mean()
            self.optim.zero_grad()
            loss.backward()
            self.optim.step()
        return loss.item()


agent = PPO()
for iteration in range(3):
    if "--fixed" in sys.argv:
        with torch.no_grad():
            rollout = agent.collect()
    else:
        rollout = agent.collect()
    print(iteration, agent.update(*rollout))
