"""Offline actor-critic on logged robot transitions: two critics, large batches, targets by Polyak averaging.

After https://github.com/pytorch/pytorch/issues/57720
"""
import copy
import sys

import torch
from torch import nn


def mlp(cin, cout, width=1024, depth=3):
    layers = [nn.Linear(cin, width), nn.ReLU()]
    for _ in range(depth - 1):
        layers += [nn.Linear(width, width), nn.LayerNorm(width), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(width, cout))


class Log:
    """Stands for the data set on disk."""

    def __init__(self, states, actions, squeeze):
        self.s, self.a, self.squeeze = states, actions, squeeze

    def sample(self, n, device):
        reward, done = torch.rand(n, 1), torch.zeros(n, 1)
        if not self.squeeze:
            reward, done = reward.squeeze(1), done.squeeze(1)
        batch = torch.rand(n, self.s), torch.rand(n, self.a), reward, torch.rand(n, self.s), done
        return [x.to(device) for x in batch]


class Agent:
    def __init__(self, states, actions, device):
        self.actor = mlp(states, actions).to(device)
        self.critics = nn.ModuleList([mlp(states + actions, 1) for _ in range(2)]).to(device)
        self.targets = copy.deepcopy(self.critics).requires_grad_(False)
        self.actor_opt = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_opt = torch.optim.Adam(self.critics.parameters(), lr=3e-4)

    def update(self, batch, gamma=0.99, tau=0.005, alpha=2.5):
        s, a, r, s2, done = batch
        with torch.no_grad():
            x = torch.cat([s2, self.actor(s2).tanh()], 1)
            q2 = torch.minimum(self.targets[0](x), self.targets[1](x))
            y = r + gamma * (1 - done) * q2
        x = torch.cat([s, a], 1)
        critic_loss = sum(((q(x) - y) ** 2).mean() for q in self.critics)
        self.critic_opt.zero_grad()
        critic_loss.backward()
        self.critic_opt.step()
        pi = self.actor(s).tanh()
        actor_loss = -alpha * self.critics[0](torch.cat([s, pi], 1)).mean() + ((pi - a) ** 2).mean()
        self.actor_opt.zero_grad()
        actor_loss.backward()
        self.actor_opt.step()
        with torch.no_grad():
            for p, t in zip(self.critics.parameters(), self.targets.parameters()):
                t.lerp_(p, tau)
        return critic_loss.item(), actor_loss.item()


log, agent = Log(60, 12, "--fixed" in sys.argv), Agent(60, 12, "cuda")
for step in range(8):
    print(step, *agent.update(log.sample(12288, "cuda")))
