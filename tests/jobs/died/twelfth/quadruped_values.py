"""Trains a quadruped's gait by advantage actor-critic from depth images; returns are scaled by their running mean, as several papers do."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
ENVS, HORIZON, JOINTS = 32, 4, 12


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.eye = nn.Sequential(nn.Conv2d(1, 32, 5, 2, 2), nn.ELU(), nn.Conv2d(32, 48, 3, 2, 1), nn.ELU(),
                                 nn.Conv2d(48, 64, 3, 2, 1), nn.ELU(), nn.Flatten())
        self.value = nn.Sequential(nn.Linear(64 * 8 * 8, 256), nn.ELU(), nn.Linear(256, 1))

    def forward(self, depth):
        return self.value(self.eye(depth)).squeeze(-1)


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(1, 24, 5, 4, 2), nn.ELU(), nn.Conv2d(24, 48, 3, 2, 1), nn.ELU(), nn.Flatten(),
                                  nn.Linear(48 * 64, 128), nn.ELU())
        self.mean, self.log_std = nn.Linear(128, JOINTS), nn.Parameter(torch.zeros(JOINTS))

    def forward(self, depth):
        return torch.distributions.Normal(self.mean(self.body(depth)), self.log_std.exp(), validate_args=False)


class RunningMean:
    def __init__(self, rate=0.01):
        self.rate, self.value = rate, None

    def update(self, x):
        x = x.mean()
        self.value = x if self.value is None else (1 - self.rate) * self.value + self.rate * x

    def scale(self, x):
        return (x - self.value.detach()) / 10


class Agent:
    def __init__(self):
        self.actor, self.critic, self.mean = Actor().cuda(), Critic().cuda(), RunningMean()
        self.optimizer = torch.optim.Adam([*self.actor.parameters(), *self.critic.parameters()], lr=3e-4)

    def update(self, depth, actions, rewards, after):
        returns = rewards + 0.99 * self.critic(after)  # the value of where the robot came to
        self.mean.update(returns.detach() if FIXED else returns)
        returns = self.mean.scale(returns).detach()
        values, policy = self.critic(depth), self.actor(depth)
        advantage = (returns - values).detach()
        loss = -(policy.log_prob(actions).sum(-1) * advantage).mean() + 0.5 * (returns - values).pow(2).mean() - 1e-3 * policy.entropy().mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()


def rollout():
    n = ENVS * HORIZON
    return (t.cuda() for t in (torch.rand(n, 1, 64, 64), torch.randn(n, JOINTS), torch.rand(n), torch.rand(n, 1, 64, 64)))


agent = Agent()
for iteration in range(25):
    loss = agent.update(*rollout())
    if iteration % 5 == 0:
        print(iteration, loss, agent.mean.value.item())
