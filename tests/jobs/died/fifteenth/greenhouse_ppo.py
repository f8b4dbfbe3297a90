"""PPO that runs the vents and lamps of 64 simulated greenhouses from camera pictures."""
import sys

import torch
import torch.nn as nn
from torch.distributions import Categorical

ENVS, HORIZON, EPOCHS, ACTIONS = 64, 24, 2, 6


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
                                   nn.Flatten(), nn.Linear(64 * 12 * 12, 512), nn.ReLU())
        self.pi, self.v = nn.Linear(512, ACTIONS), nn.Linear(512, 1)

    def forward(self, picture):
        h = self.trunk(picture)
        return Categorical(logits=self.pi(h), validate_args=False), self.v(h).squeeze(-1)


class Greenhouses:
    def __init__(self):
        self.g = torch.Generator().manual_seed(5)

    def look(self):
        return torch.rand(ENVS, 4, 128, 128, generator=self.g)

    def step(self, actions):
        return self.look(), torch.randn(ENVS, generator=self.g)


class Agent:
    def __init__(self):
        self.policy = ActorCritic().cuda()
        self.optimizer = torch.optim.Adam(self.policy.parameters(), lr=2.5e-4, eps=1e-5)

    def act(self, picture):
        if "--fixed" in sys.argv:
            with torch.no_grad():
                dist, value = self.policy(picture.cuda())
        else:
            dist, value = self.policy(picture.cuda())
        action = dist.sample()
        return action, dist.log_prob(action), value

    def update(self, memory, gamma=0.99, clip=0.2):
        old = torch.stack(memory["logp"]).detach()
        values = torch.stack(memory["value"]).detach()
        returns, running = [], values[-1]
        for reward in reversed(memory["reward"]):
            running = reward.cuda() + gamma * running
            returns.insert(0, running)
        returns = torch.stack(returns)
        advantage = returns - values
        for _ in range(EPOCHS):
            for t in range(HORIZON):
                dist, value = self.policy(memory["picture"][t].cuda())
                ratio = (dist.log_prob(memory["action"][t]) - old[t]).exp()
                surrogate = torch.min(ratio * advantage[t], ratio.clamp(1 - clip, 1 + clip) * advantage[t]).mean()
                loss = -surrogate + 0.5 * (returns[t] - value).pow(2).mean() - 0.01 * dist.entropy().mean()
                self.optimizer.zero_grad()
                loss.backward()
                self.optimizer.step()
        return loss.item()


agent, world = Agent(), Greenhouses()
picture = world.look()
for iteration in range(2):
    memory = {"picture": [], "action": [], "logp": [], "value": [], "reward": []}
    for _ in range(HORIZON):
        action, logp, value = agent.act(picture)
        after, reward = world.step(action)
        for key, item in zip(memory, (picture, action, logp, value, reward)):
            memory[key].append(item)
        picture = after
    print("iteration", iteration, "loss", agent.update(memory))
