"""Distributional DQN (C51) for Breakout, weekend project. The emulator is replaced by noise here."""
import random
import sys
from collections import deque

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
N_ENVS, ATOMS, ACTIONS, GAMMA = 32, 51, 4, 0.99
V_MIN, V_MAX = -10.0, 10.0
dev = torch.device("cuda")


class FakeAtari:
    def __init__(self):
        self.g = torch.Generator().manual_seed(4)
        self.frames = torch.randint(0, 256, (N_ENVS, 4, 84, 84), generator=self.g, dtype=torch.uint8)

    def step(self, actions):
        new = torch.randint(0, 256, (N_ENVS, 1, 84, 84), generator=self.g, dtype=torch.uint8)
        self.frames = torch.cat([self.frames[:, 1:], new], 1)
        return self.frames, torch.rand(N_ENVS, generator=self.g).round(), torch.zeros(N_ENVS)


class ReplayMemory:
    def __init__(self, size):
        self.buffer = deque(maxlen=size)

    def push(self, s, a, r, s2, done):
        if FIXED:
            item = (s, a, r, s2, done)
        else:
            item = (to_input(s), a.to(dev), r.to(dev), to_input(s2), done.to(dev))
        self.buffer.append(item)

    def sample(self, k):
        s, a, r, s2, d = (torch.cat(c) for c in zip(*random.sample(self.buffer, k)))
        if FIXED:
            return to_input(s), a.to(dev), r.to(dev), to_input(s2), d.to(dev)
        return s, a, r, s2, d


def to_input(frames):
    return frames.to(dev).float() / 255.0


class C51(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                                  nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten())
        self.fc = nn.Sequential(nn.Linear(3136, 512), nn.ReLU(), nn.Linear(512, ACTIONS * ATOMS))
        self.register_buffer("support", torch.linspace(V_MIN, V_MAX, ATOMS))

    def forward(self, x):
        return self.fc(self.conv(x)).view(-1, ACTIONS, ATOMS).log_softmax(-1)

    @torch.no_grad()
    def act(self, x):
        return (self(x).exp() * self.support).sum(-1).argmax(-1)


online, target = C51().to(dev), C51().to(dev)
target.load_state_dict(online.state_dict())
opt = torch.optim.Adam(online.parameters(), lr=2.5e-4, eps=1e-2 / 64)


def learn(memory):
    s, a, r, s2, d = memory.sample(2)
    with torch.no_grad():
        probs = target(s2).exp()[range(len(a)), target.act(s2)]
        tz = (r[:, None] + (1 - d[:, None]) * GAMMA * online.support).clamp(V_MIN, V_MAX)
        b = (tz - V_MIN) / ((V_MAX - V_MIN) / (ATOMS - 1))
        near = 1 - (b[:, :, None] - torch.arange(ATOMS, device=dev)).abs().clamp(max=1)
        m = (probs[:, :, None] * near).sum(1)
    loss = -(m * online(s)[range(len(a)), a]).sum(-1).mean()
    opt.zero_grad()
    loss.backward()
    opt.step()
    return loss.item()


env, memory = FakeAtari(), ReplayMemory(size=3000)
obs = env.frames
for t in range(200):
    action = online.act(to_input(obs)).cpu() if t > 20 else torch.randint(0, ACTIONS, (N_ENVS,))
    action = action.clamp(0, ACTIONS - 1)
    nxt, reward, done = env.step(action)
    memory.push(obs, action, reward, nxt, done)
    obs = nxt
    if t > 20 and t % 4 == 0:
        print("frame", t * N_ENVS, "loss", learn(memory)) if t % 40 == 0 else learn(memory)
    if t % 100 == 99:
        target.load_state_dict(online.state_dict())
