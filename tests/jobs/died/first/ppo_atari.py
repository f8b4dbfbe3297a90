"""PPO with a convolutional policy on many environments at once.

https://github.com/nikhilbarhate99/PPO-PyTorch/issues/18
"""
import argparse

import torch
import torch.nn as nn
from torch.distributions import Categorical


class ActorCritic(nn.Module):
    def __init__(self, actions=6):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(4, 64, 8, 4), nn.ReLU(), nn.Conv2d(64, 128, 4, 2), nn.ReLU(), nn.Conv2d(128, 128, 3, 1), nn.ReLU(),
                                   nn.Flatten(), nn.Linear(128 * 7 * 7, 1024), nn.ReLU())
        self.pi, self.v = nn.Linear(1024, actions), nn.Linear(1024, 1)

    def forward(self, obs):
        h = self.trunk(obs / 255.0)
        return Categorical(logits=self.pi(h), validate_args=False), self.v(h).squeeze(-1)


class Memory:
    def __init__(self):
        self.states, self.actions, self.logprobs, self.values, self.rewards = [], [], [], [], []

    def clear(self):
        for field in vars(self).values():
            field.clear()


class Agent:
    def __init__(self, args):
        self.args = args
        self.policy = ActorCritic().cuda()
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=2.5e-4)
        self.memory = Memory()

    def act(self, obs):
        dist, value = self.policy(obs)
        action = dist.sample()
        self.memory.states.append(obs)
        self.memory.actions.append(action)
        self.memory.logprobs.append(dist.log_prob(action))
        self.memory.values.append(value)
        return action

    def update(self):
        old_states, old_actions = torch.stack(self.memory.states).detach(), torch.stack(self.memory.actions).detach()
        old_logprobs, values = torch.stack(self.memory.logprobs).detach(), torch.stack(self.memory.values).detach()
        returns = torch.stack(self.memory.rewards).flip(0).cumsum(0).flip(0)
        self.memory.clear()
        for _ in range(2):
            for t in range(len(old_states)):
                dist, v = self.policy(old_states[t])
                ratio = (dist.log_prob(old_actions[t]) - old_logprobs[t]).exp()
                adv = returns[t] - values[t]
                loss = -torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean() + 0.5 * (v - returns[t]).pow(2).mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--envs", type=int, default=512)
    parser.add_argument("--horizon", type=int, default=16)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    agent = Agent(args)
    for iteration in range(3):
        for t in range(args.horizon):
            obs = torch.zeros(args.envs, 4, 84, 84, device="cuda")
            with torch.set_grad_enabled(not args.fixed):
                agent.act(obs)
            agent.memory.rewards.append(torch.zeros(args.envs, device="cuda"))
        agent.update()


if __name__ == "__main__":
    main()
