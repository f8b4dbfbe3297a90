"""Teaches traffic lights of a junction with REINFORCE and a baseline; the simulator of the junction gives a picture for each second."""
import sys

import torch
import torch.nn as nn
from torch.distributions import Categorical

FIXED = "--fixed" in sys.argv
SECONDS, PHASES, JUNCTIONS = 120, 4, 16


class Junctions:
    """Many junctions at once; the pictures are blank here."""

    def reset(self):
        self.second = 0
        return torch.zeros(JUNCTIONS, 3, 84, 84)

    def step(self, actions):
        self.second += 1
        return torch.zeros(JUNCTIONS, 3, 84, 84), -torch.rand(JUNCTIONS), self.second >= SECONDS


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.eyes = nn.Sequential(nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
                                  nn.Flatten())
        self.body = nn.Sequential(nn.Linear(3136, 256), nn.ReLU())
        self.actor, self.critic = nn.Linear(256, PHASES), nn.Linear(256, 1)

    def forward(self, pictures):
        x = self.body(self.eyes(pictures))
        return self.actor(x), self.critic(x).squeeze(-1)


def returns_of(rewards, discount=0.97):
    total, returns = torch.zeros(JUNCTIONS), []
    for reward in reversed(rewards):
        total = reward + discount * total
        returns.append(total)
    return returns[::-1]


def objective(log_probability, value, target, entropy):
    advantage = target - value.detach()
    return (-log_probability * advantage + 0.5 * (value - target).square() - 0.01 * entropy).mean()


def episode_whole(env, policy):
    """Acts, keeps the log probabilities, and learns from them at the end of the episode."""
    seen, rewards, done, pictures = [], [], False, env.reset()
    while not done:
        logits, value = policy(pictures.cuda())
        chosen = Categorical(logits=logits, validate_args=False)
        action = chosen.sample()
        seen.append((chosen.log_prob(action), value, chosen.entropy()))
        pictures, reward, done = env.step(action.cpu())
        rewards.append(reward)
    returns = returns_of(rewards)
    loss = sum(objective(lp, v, r.cuda(), e) for (lp, v, e), r in zip(seen, returns)) / len(seen)
    loss.backward()
    return loss.item()


def episode_parts(env, policy):
    """Acts without gradients, and learns from the pictures again, one second at a time."""
    seen, rewards, done, pictures = [], [], False, env.reset()
    while not done:
        with torch.no_grad():
            action = Categorical(logits=policy(pictures.cuda())[0], validate_args=False).sample()
        seen.append((pictures, action.cpu()))
        pictures, reward, done = env.step(action.cpu())
        rewards.append(reward)
    total = 0.0
    for (pictures, action), target in zip(seen, returns_of(rewards)):
        logits, value = policy(pictures.cuda())
        chosen = Categorical(logits=logits, validate_args=False)
        loss = objective(chosen.log_prob(action.cuda()), value, target.cuda(), chosen.entropy()) / len(seen)
        loss.backward()
        total += loss.item()
    return total


policy = Policy().cuda()
optimizer = torch.optim.Adam(policy.parameters(), lr=2e-4)
for episode in range(3):
    optimizer.zero_grad()
    loss = (episode_parts if FIXED else episode_whole)(Junctions(), policy)
    optimizer.step()
    print("episode", episode, "loss", loss)
