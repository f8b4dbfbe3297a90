"""Recurrent Q-learning (DRQN) of a gait for a six-legged robot from its belly camera, 24 simulators side by side."""
import collections
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
N_ENVS, N_ACTIONS, EPISODE = 24, 12, 120


class FakeHexapods:
    """Stands for the simulator: frames depend on the actions only through a counter."""

    def __init__(self, seed):
        self.gen = torch.Generator().manual_seed(seed)
        self.bank = torch.randint(0, 256, (16, N_ENVS, 1, 64, 64), dtype=torch.uint8, generator=self.gen)

    def reset(self):
        self.t = 0
        return self.bank[0]

    def step(self, actions):
        self.t += 1
        reward = torch.rand(N_ENVS, generator=self.gen) - 0.01 * (actions % N_ACTIONS).float()
        return self.bank[self.t % 16], reward, self.t >= EPISODE


class QNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.eyes = nn.Sequential(nn.Conv2d(1, 32, 5, padding=2), nn.ELU(), nn.MaxPool2d(2), nn.Conv2d(32, 32, 3, padding=1), nn.ELU(),
                                  nn.MaxPool2d(2), nn.Conv2d(32, 32, 3, stride=2, padding=1), nn.ELU(), nn.Flatten())
        self.cell = nn.GRUCell(32 * 64, 256)
        self.advantage, self.value = nn.Linear(256, N_ACTIONS), nn.Linear(256, 1)

    def initial(self, n):
        return torch.zeros(n, 256, device="cuda")

    def forward(self, frame, h):
        h = self.cell(self.eyes(frame.float() / 255), h)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True), h


class Agent:
    def __init__(self):
        self.online, self.target = QNetwork().cuda(), QNetwork().cuda()
        self.target.load_state_dict(self.online.state_dict())
        self.opt = torch.optim.Adam(self.online.parameters(), lr=2e-4)
        self.memory = collections.deque(maxlen=4)
        self.rng = random.Random(0)

    def act(self, frame, h, eps):
        with torch.set_grad_enabled(not FIXED):
            q, h = self.online(frame.cuda(), h)
        action = q.argmax(1).cpu().clamp(0, N_ACTIONS - 1)
        if self.rng.random() < eps:
            action = torch.randint(0, N_ACTIONS, (N_ENVS,))
        return action, h

    def learn(self, length=6):
        episode = self.rng.choice(self.memory)
        start = self.rng.randrange(len(episode) - length)
        h, ht, loss = self.online.initial(N_ENVS), self.target.initial(N_ENVS), 0.0
        for frame, action, reward, after in episode[start:start + length]:
            q, h = self.online(frame.cuda(), h)
            with torch.no_grad():
                best, ht = self.target(after.cuda(), ht)
                goal = reward.cuda() + 0.99 * best.max(1).values
            loss = loss + F.smooth_l1_loss(q.gather(1, action.cuda()[:, None])[:, 0], goal)
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        return loss.item() / length


agent, env = Agent(), FakeHexapods(0)
for number in range(3):
    frame, h, done, history = env.reset(), agent.online.initial(N_ENVS), False, []
    while not done:
        action, h = agent.act(frame, h, eps=max(0.05, 0.5 - 0.2 * number))
        after, reward, done = env.step(action)
        history.append((frame, action, reward, after))
        frame = after
    agent.memory.append(history)
    losses = [agent.learn() for _ in range(4)]
    print("episode", number, "return", sum(r.mean().item() for _, _, r, _ in history), "td", sum(losses) / 4)
