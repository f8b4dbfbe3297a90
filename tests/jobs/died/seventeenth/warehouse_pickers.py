"""Double DQN for robots that fetch boxes in a warehouse; they see four frames of a camera above, in 32 warehouses at a time."""
import collections
import random
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

ENVS, ACTIONS, STEPS = 32, 6, 160
Transition = collections.namedtuple("Transition", "obs action reward following")


class Warehouses:
    def __init__(self):
        self.gen = torch.Generator().manual_seed(12)
        self.frames = torch.zeros(ENVS, 4, 84, 84, dtype=torch.uint8)

    def observe(self):
        return self.frames.clone()

    def step(self, actions):
        new = torch.randint(0, 256, (ENVS, 1, 84, 84), dtype=torch.uint8, generator=self.gen)
        self.frames = torch.cat([self.frames[:, 1:], new], 1)
        return self.frames.clone(), torch.rand(ENVS, generator=self.gen) - 0.5


class QNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU())
        self.value, self.advantage = nn.Linear(3136, 1), nn.Linear(3136, ACTIONS)

    def forward(self, obs):
        h = self.conv(obs).flatten(1)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(1, keepdim=True)


class ReplayMemory:
    def __init__(self, capacity=100_000):
        self.items = collections.deque(maxlen=capacity)

    def push(self, obs, action, reward, following):
        for item in zip(obs, action, reward, following):
            self.items.append(Transition(*item))

    def sample(self, n):
        batch = Transition(*zip(*random.sample(self.items, n)))
        return [torch.stack(field).cuda() for field in batch]


def to_input(frames):
    return frames.cuda().float() / 255


def learn(online, target, optimizer, memory, gamma=0.99):
    obs, action, reward, following = memory.sample(64)
    if obs.dtype == torch.uint8:
        obs, following = to_input(obs), to_input(following)
    with torch.no_grad():
        best = online(following).argmax(1, keepdim=True).clamp(0, ACTIONS - 1)
        goal = reward + gamma * target(following).gather(1, best).squeeze(1)
    loss = F.smooth_l1_loss(online(obs).gather(1, action.unsqueeze(1)).squeeze(1), goal)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


def main():
    random.seed(3)
    envs, memory = Warehouses(), ReplayMemory()
    online, target = QNet().cuda(), QNet().cuda()
    optimizer = torch.optim.Adam(online.parameters(), lr=1e-4)
    frames = envs.observe()
    for step in range(STEPS):
        obs = to_input(frames)
        with torch.no_grad():
            online(obs).argmax(1)
        action = torch.tensor([random.randrange(ACTIONS) for _ in range(ENVS)])
        new, reward = envs.step(action)
        if "--fixed" in sys.argv:
            memory.push(frames, action, reward, new)
        else:
            memory.push(obs, action.cuda(), reward.cuda(), to_input(new))
        frames = new
        if step % 4 == 3:
            loss = learn(online, target, optimizer, memory)
        if step % 40 == 39:
            target.load_state_dict(online.state_dict())
            print("step", step, "memory", len(memory.items), "loss", loss)


main()
