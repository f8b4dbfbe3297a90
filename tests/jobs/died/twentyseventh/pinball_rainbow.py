"""Value learning on a pinball table: 32 tables at a time, four grey frames as the state, dueling network, n-step off."""
import copy
import random
import sys
from collections import deque

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
N_ENVS, N_ACTIONS, CAPACITY = 32, 4, 50_000
device = "cuda"


class Dueling(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                                  nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten())
        self.value = nn.Sequential(nn.Linear(3136, 256), nn.ReLU(), nn.Linear(256, 1))
        self.gain = nn.Sequential(nn.Linear(3136, 256), nn.ReLU(), nn.Linear(256, N_ACTIONS))

    def forward(self, s):
        h = self.conv(s)
        a = self.gain(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class PinballTables:
    def __init__(self, n):
        self.frames = torch.rand(n, 4, 84, 84)

    def step(self, action):
        self.frames = self.frames.roll(1, 3)
        return self.frames, torch.rand(len(action))


class ReplayBuffer:
    def __init__(self, capacity):
        self.items = deque(maxlen=capacity)

    def push(self, s, a, r, s2):
        if FIXED:
            s, s2 = s.mul(255).byte().cpu(), s2.mul(255).byte().cpu()
        self.items.append((s, a, r, s2))

    def sample(self, n):
        chosen = random.sample(list(self.items), n)
        s, a, r, s2 = (torch.cat(part).to(device) for part in zip(*chosen))
        if FIXED:
            s, s2 = s.float() / 255, s2.float() / 255
        return s, a, r, s2


random.seed(0)
online = Dueling().to(device)
target = copy.deepcopy(online).requires_grad_(False)
opt = torch.optim.Adam(online.parameters(), lr=1e-4)
tables, buffer = PinballTables(N_ENVS), ReplayBuffer(CAPACITY)
state = tables.frames.to(device)
for t in range(220):
    with torch.no_grad():
        action = online(state).argmax(1)
    frames, reward = tables.step(action)
    nxt = frames.to(device)
    buffer.push(state, action, reward, nxt)
    state = nxt
    if t >= 8 and t % 4 == 0:
        s, a, r, s2 = buffer.sample(4)
        with torch.no_grad():
            goal = r + 0.99 * target(s2).amax(1)
        loss = F.smooth_l1_loss(online(s).gather(1, a[:, None]).squeeze(1), goal)
        opt.zero_grad()
        loss.backward()
        opt.step()
    if t % 40 == 39:
        target.load_state_dict(online.state_dict())
        print("t", t, "loss", loss.item())
