"""DQN whose replay memory holds tensors that are on the GPU already, to save the copies.

https://github.com/cpnota/autonomous-learning-library/issues/144
"""
import random
import sys
from collections import deque, namedtuple

import torch
import torch.nn as nn
import torch.nn.functional as F

Transition = namedtuple("Transition", "state action reward next_state done")
FIXED = "--fixed" in sys.argv
device = torch.device("cuda")


class QNet(nn.Module):
    def __init__(self, n_actions=4):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(3136, 2048), nn.ReLU(), nn.Linear(2048, n_actions))

    def forward(self, x):
        return self.head(self.conv(x).flatten(1))


class ReplayMemory:
    def __init__(self, capacity):
        self.buffer = deque(maxlen=capacity)

    def push(self, *args):
        self.buffer.append(Transition(*args))

    def sample(self, n):
        return Transition(*zip(*random.sample(self.buffer, n)))


policy, target = QNet().to(device), QNet().to(device)
target.load_state_dict(policy.state_dict())
optimizer = torch.optim.Adam(policy.parameters(), lr=1e-4)
memory = ReplayMemory(10000)


def optimize_model(batch_size=32):
    batch = memory.sample(batch_size)
    state = torch.cat(batch.state).to(device)
    next_state = torch.cat(batch.next_state).to(device)
    reward = torch.tensor(batch.reward, device=device).repeat_interleave(ENVS)
    action = torch.cat(batch.action).to(device)
    q = policy(state).gather(1, action[:, None]).squeeze(1)
    with torch.no_grad():
        expected = reward + 0.99 * target(next_state).max(1).values
    loss = F.smooth_l1_loss(q, expected)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


ENVS = 8
state = torch.zeros(ENVS, 4, 84, 84, device=device)
for t in range(600):
    with torch.no_grad():
        action = policy(state).argmax(1)
    next_state = torch.zeros(ENVS, 4, 84, 84, device=device)
    if FIXED:
        memory.push(torch.zeros(ENVS, 4, 84, 84), action.cpu(), 0.0, torch.zeros(ENVS, 4, 84, 84), False)
    else:
        memory.push(state, action, 0.0, next_state, False)
    state = next_state
    if t > 40 and t % 10 == 0:
        optimize_model()
    if t % 200 == 0:
        target.load_state_dict(policy.state_dict())
