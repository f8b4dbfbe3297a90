"""Soft actor-critic from pixels with a replay buffer, on an environment of its own."""
import copy
import random
import sys
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
ACTIONS, BATCH = 4, 64


class PixelReach:
    """Three stacked frames of 84 by 84."""

    def reset(self):
        self.t = 0
        return torch.zeros(9, 84, 84, dtype=torch.uint8)

    def step(self, action):
        self.t += 1
        return torch.full((9, 84, 84), self.t % 255, dtype=torch.uint8), 0.1, self.t >= 250


class Replay:
    def __init__(self, capacity):
        self.rows = deque(maxlen=capacity)

    def add(self, state, action, reward, after, done):
        self.rows.append((state, action, reward, after, done))

    def sample(self, n):
        rows = random.sample(self.rows, n)
        s, a, r, t, d = zip(*rows)
        return (torch.stack(s).cuda().float() / 255, torch.stack(a).cuda(), torch.tensor(r).cuda(), torch.stack(t).cuda().float() / 255,
                torch.tensor(d).float().cuda())


def encoder():
    return nn.Sequential(nn.Conv2d(9, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32 * 400, 64), nn.Tanh())


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(encoder(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 2 * ACTIONS))

    def forward(self, s):
        mean, log_std = self.net(s).chunk(2, -1)
        std = log_std.clamp(-5, 2).exp()
        noise = torch.randn_like(mean)
        action = torch.tanh(mean + std * noise)
        return action, (-0.5 * noise.pow(2) - log_std - torch.log(1 - action.pow(2) + 1e-6)).sum(-1)


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = encoder()
        self.q = nn.ModuleList(nn.Sequential(nn.Linear(64 + ACTIONS, 256), nn.ReLU(), nn.Linear(256, 1)) for _ in range(2))

    def forward(self, s, a):
        x = torch.cat([self.encoder(s), a], -1)
        return torch.cat([q(x) for q in self.q], -1)


actor, critic = Actor().cuda(), Critic().cuda()
target = copy.deepcopy(critic).requires_grad_(False)
actor_optimizer, critic_optimizer = (torch.optim.Adam(m.parameters(), lr=3e-4) for m in (actor, critic))
replay, env = Replay(100000), PixelReach()
observation = env.reset()
for step in range(1500):
    state = observation if FIXED else observation.cuda().float()
    with torch.no_grad():
        action = actor(observation.cuda()[None].float() / 255)[0][0].cpu()
    after, reward, done = env.step(action)
    replay.add(state, action, reward, after if FIXED else after.cuda().float(), done)
    observation = env.reset() if done else after
    if step >= 200 and step % 10 == 0:
        s, a, r, t, d = replay.sample(BATCH)
        with torch.no_grad():
            b, logp = actor(t)
            y = r + 0.99 * (1 - d) * (target(t, b).min(-1).values - 0.1 * logp)
        critic_loss = F.mse_loss(critic(s, a), y[:, None].expand(-1, 2))
        critic_optimizer.zero_grad()
        critic_loss.backward()
        critic_optimizer.step()
        b, logp = actor(s)
        actor_loss = (0.1 * logp - critic(s, b).min(-1).values).mean()
        actor_optimizer.zero_grad()
        actor_loss.backward()
        actor_optimizer.step()
        with torch.no_grad():
            for p, q in zip(target.parameters(), critic.parameters()):
                p.lerp_(q, 0.01)
print("critic", critic_loss.item(), "actor", actor_loss.item())
