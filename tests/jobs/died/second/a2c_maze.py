"""Clipped policy gradient in a maze of 84 x 84 pixels, 64 environments at a time, short rollouts.

Statistics of each update go to a dict, from which the curves are drawn at the end.
After https://github.com/pytorch/pytorch/issues/1536 and https://github.com/microsoft/SpareNet/issues/12
"""
import collections
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 64, 8, stride=2, padding=3)
        self.conv2 = nn.Conv2d(64, 128, 4, stride=2, padding=1)
        self.conv3 = nn.Conv2d(128, 128, 3, padding=1)
        self.fc = nn.Linear(128 * 21 * 21, 256)
        self.pi = nn.Linear(256, actions)
        self.v = nn.Linear(256, 1)

    def forward(self, frame):
        x = F.relu(self.conv1(frame))
        x = F.relu(self.conv2(x))
        x = F.relu(self.conv3(x))
        x = F.relu(self.fc(x.flatten(1)))
        return self.pi(x), self.v(x).squeeze(-1)


class Maze:
    """Stands for the vectorised environment."""

    def __init__(self, count):
        self.count = count

    def observe(self):
        return torch.rand(self.count, 3, 84, 84)

    def act(self, actions):
        return self.observe(), torch.rand(self.count)


def main(fixed):
    envs, horizon, gamma = 64, 4, 0.99
    maze, net = Maze(envs), ActorCritic().cuda()
    opt = torch.optim.Adam(net.parameters(), lr=2.5e-4)
    stats = collections.defaultdict(list)
    obs = maze.observe().cuda()
    for update in range(8):
        frames, actions, log_probs, values, rewards = [], [], [], [], []
        for _ in range(horizon):
            logits, value = net(obs)
            if fixed:
                logits, value = logits.detach(), value.detach()
            dist = Categorical(logits=logits, validate_args=False)
            action = dist.sample()
            frames.append(obs)
            actions.append(action)
            log_probs.append(dist.log_prob(action))
            values.append(value)
            obs, reward = maze.act(action)
            obs = obs.cuda()
            rewards.append(reward.cuda())
        ret, returns = values[-1].detach(), []
        for reward in reversed(rewards):
            ret = reward + gamma * ret
            returns.insert(0, ret)
        stats["value"].append(torch.stack(values).mean())
        for frame, action, old, target in zip(frames, actions, log_probs, returns):
            logits, value = net(frame)
            dist = Categorical(logits=logits, validate_args=False)
            ratio = (dist.log_prob(action) - old.detach()).exp()
            advantage = (target - value).detach()
            policy = -torch.min(ratio * advantage, ratio.clamp(0.9, 1.1) * advantage).mean()
            loss = policy + 0.5 * (target - value).pow(2).mean() - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
        print(update, loss.item())
    print({k: torch.stack(v).mean().item() for k, v in stats.items()})


main("--fixed" in sys.argv)
