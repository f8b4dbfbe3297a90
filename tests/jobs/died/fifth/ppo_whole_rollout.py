"""Proximal policy optimisation on a maze of pictures: rollouts of several environments, then a few passes over them."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

ENVS, STEPS, ACTIONS = 32, 64, 5
MINIBATCH = 256 if "--fixed" in sys.argv else ENVS * STEPS


class Mazes:
    def __init__(self, n):
        self.n = n

    def reset(self):
        return torch.zeros(self.n, 3, 64, 64)

    def step(self, actions):
        return torch.zeros(self.n, 3, 64, 64), torch.rand(self.n), (torch.rand(self.n) < 0.01).float()


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        layers, inner = [], 3
        for width in 16, 32, 32:
            layers += [nn.Conv2d(inner, width, 3, padding=1), nn.MaxPool2d(3, 2, 1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU()]
            inner = width
        self.trunk = nn.Sequential(*layers, nn.Flatten(), nn.Linear(32 * 64, 256), nn.ReLU())
        self.actor, self.critic = nn.Linear(256, ACTIONS), nn.Linear(256, 1)

    def forward(self, x):
        x = self.trunk(x)
        return F.log_softmax(self.actor(x), -1), self.critic(x).squeeze(-1)


def collect(policy, envs, observation):
    rows = []
    with torch.no_grad():
        for _ in range(STEPS):
            logp, value = policy(observation.cuda())
            action = torch.randint(ACTIONS, (ENVS,))
            chosen = logp.cpu()[torch.arange(ENVS), action]
            after, reward, done = envs.step(action)
            rows.append((observation, action, chosen, value.cpu(), reward, done))
            observation = after
    return [torch.stack(column) for column in zip(*rows)], observation


def advantages(values, rewards, dones, gamma=0.99, lam=0.95):
    last, found = torch.zeros(ENVS), []
    following = values[-1]
    for t in reversed(range(STEPS)):
        delta = rewards[t] + gamma * following * (1 - dones[t]) - values[t]
        last = delta + gamma * lam * (1 - dones[t]) * last
        found.insert(0, last)
        following = values[t]
    return torch.stack(found)


policy, envs = Policy().cuda(), Mazes(ENVS)
optimizer = torch.optim.Adam(policy.parameters(), lr=2.5e-4, eps=1e-5)
observation = envs.reset()
for update in range(2):
    (states, actions, old, values, rewards, dones), observation = collect(policy, envs, observation)
    adv = advantages(values, rewards, dones)
    data = [c.flatten(0, 1) for c in (states, actions, old, adv, adv + values)]
    for epoch in range(2):
        for index in torch.randperm(ENVS * STEPS).split(MINIBATCH):
            s, a, o, d, g = (c[index].cuda() for c in data)
            logp, value = policy(s)
            new = logp.gather(1, a[:, None]).squeeze(1)
            ratio = (new - o).exp()
            loss = -torch.minimum(ratio * d, ratio.clamp(0.8, 1.2) * d).mean() + 0.5 * F.mse_loss(value, g)
            loss = loss + 0.01 * (logp.exp() * logp).sum(-1).mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(policy.parameters(), 0.5)
            optimizer.step()
    print("update", update, "loss", loss.item())
