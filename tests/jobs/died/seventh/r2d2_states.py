"""Recurrent Q-learning of a maze with pixels: episodes are replayed from the recurrent state that the actor had when it was there."""
import random
import sys
from collections import deque

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
ENVS, BURN, ACTIONS, HIDDEN = 32, 8, 6, 512
random.seed(2)


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.see = nn.Sequential(nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                                 nn.Conv2d(64, 64, 3, 1), nn.ReLU(), nn.Flatten())
        self.embed = nn.Linear(64 * 7 * 7, HIDDEN)
        self.cell = nn.LSTMCell(HIDDEN + ACTIONS, HIDDEN)
        self.value, self.advantage = nn.Linear(HIDDEN, 1), nn.Linear(HIDDEN, ACTIONS)

    def forward(self, pixels, action, state):
        seen = F.relu(self.embed(self.see(pixels)))
        h, c = self.cell(torch.cat([seen, F.one_hot(action, ACTIONS).float()], -1), state)
        a = self.advantage(h)
        return self.value(h) + a - a.mean(-1, keepdim=True), (h, c)


class Maze:
    """Many mazes at once; frames come from a renderer on the CPU."""

    def observe(self):
        return torch.zeros(ENVS, 3, 84, 84)

    def act(self, actions):
        return torch.full((ENVS,), 0.1), random.random() < 0.05


class Replay:
    def __init__(self, capacity):
        self.episodes = deque(maxlen=capacity)

    def add(self, state, frames, actions, rewards):
        self.episodes.append((state, torch.stack(frames), torch.stack(actions), torch.stack(rewards)))

    def sample(self):
        return random.choice(self.episodes)


def collect(agent, maze, replay, state, action):
    first, frames, actions, rewards = state, [], [], []
    for _ in range(BURN):
        frame = maze.observe()
        q, state = agent(frame.cuda(), action.cuda(), state)
        if FIXED:
            q, state = q.detach(), tuple(s.detach() for s in state)
        greedy = q.argmax(-1).cpu().clamp(0, ACTIONS - 1)
        action = torch.where(torch.rand(ENVS) < 0.2, torch.randint(0, ACTIONS, (ENVS,)), greedy)
        reward, _ = maze.act(action)
        frames.append(frame), actions.append(action), rewards.append(reward)
    replay.add(first, frames, actions, rewards)
    return state, action


def learn(agent, optimizer, replay):
    state, frames, actions, rewards = replay.sample()
    state = tuple(s.detach() for s in state)
    loss, q_before = 0.0, None
    for t in range(BURN):
        q, state = agent(frames[t].cuda(), actions[max(0, t - 1)].cuda(), state)
        if q_before is not None:
            target = rewards[t - 1].cuda() + 0.99 * q.detach().amax(-1)
            loss = loss + F.smooth_l1_loss(q_before, target)
        q_before = q.gather(1, actions[t].cuda().unsqueeze(1)).squeeze(1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss.item()


agent = Agent().cuda()
optimizer = torch.optim.Adam(agent.parameters(), lr=1e-4)
replay, maze = Replay(200), Maze()
state = (torch.zeros(ENVS, HIDDEN, device="cuda"), torch.zeros(ENVS, HIDDEN, device="cuda"))
action = torch.zeros(ENVS, dtype=torch.long)
for n in range(12):
    state, action = collect(agent, maze, replay, state, action)
    print("round", n, "loss", learn(agent, optimizer, replay))
