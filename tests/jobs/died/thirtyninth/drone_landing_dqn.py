"""Double DQN for landing a drone on a deck from the camera; 32 simulators in parallel, frames of 84 x 84, four stacked."""
import random
import sys
from collections import deque

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
N_ENVS, CAPACITY, BATCH, GAMMA = 32, 200_000, 64, 0.99
device = torch.device("cuda:0")
random.seed(0)


class DeckSim:
    """Frames as uint8 from the renderer."""

    def __init__(self):
        self.t = 0

    def observe(self):
        return np.full((N_ENVS, 4, 84, 84), self.t % 256, dtype=np.uint8)

    def step(self, actions):
        self.t += 1
        return self.observe(), np.full(N_ENVS, 0.1, dtype=np.float32), np.zeros(N_ENVS, dtype=np.float32)


class ReplayMemory:
    def __init__(self, capacity):
        self.items = deque(maxlen=capacity // N_ENVS)

    def push(self, state, action, reward, following, done):
        if FIXED:
            self.items.append((torch.from_numpy(state), action, torch.from_numpy(reward), torch.from_numpy(following), torch.from_numpy(done)))
            return
        self.items.append((
            torch.tensor(state, dtype=torch.float32, device=device) / 255,
            torch.tensor(action, device=device),
            torch.tensor(reward, device=device),
            torch.tensor(following, dtype=torch.float32, device=device) / 255,
            torch.tensor(done, device=device),
        ))

    def sample(self, n):
        picks = [(random.choice(self.items), random.randrange(N_ENVS)) for _ in range(n)]
        columns = zip(*[[torch.as_tensor(part[j]) for part in item] for item, j in picks])
        state, action, reward, following, done = [torch.stack(c).to(device) for c in columns]
        if FIXED:
            state, following = state.float() / 255, following.float() / 255
        return state, action, reward, following, done


class QNet(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU())
        self.value = nn.Sequential(nn.Flatten(), nn.Linear(3136, 256), nn.ReLU(), nn.Linear(256, 1))
        self.adv = nn.Sequential(nn.Flatten(), nn.Linear(3136, 256), nn.ReLU(), nn.Linear(256, actions))

    def forward(self, x):
        h = self.conv(x)
        a = self.adv(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


online, target = QNet().to(device), QNet().to(device)
target.load_state_dict(online.state_dict())
optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
memory, sim = ReplayMemory(CAPACITY), DeckSim()
state = sim.observe()
for t in range(240):
    actions = np.random.default_rng(t).integers(0, 6, N_ENVS)
    following, reward, done = sim.step(actions)
    memory.push(state, actions, reward, following, done)
    state = following
    if t >= 20 and t % 4 == 0:
        s, a, r, s2, d = memory.sample(BATCH)
        with torch.no_grad():
            best = online(s2).argmax(1, keepdim=True)
            y = r + GAMMA * (1 - d) * target(s2).gather(1, best).squeeze(1)
        loss = F.smooth_l1_loss(online(s).gather(1, a[:, None]).squeeze(1), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if t % 80 == 0:
        target.load_state_dict(online.state_dict())
        print("step", t, "memory", len(memory.items) * N_ENVS)
