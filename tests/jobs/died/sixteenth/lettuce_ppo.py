"""PPO for the blinds and vents of a greenhouse, from ceiling cameras (64 simulated houses at a time)."""
import sys

import torch
import torch.nn as nn
from torch.distributions import Categorical

N_ENVS, HORIZON, ACTIONS = 64, 112, 9


class Houses:
    """A stand-in for the simulator: pictures and rewards on the CPU."""

    def __init__(self):
        self.g = torch.Generator().manual_seed(5)

    def observe(self):
        return torch.randint(0, 256, (N_ENVS, 3, 84, 84), dtype=torch.uint8, generator=self.g)

    def step(self, actions):
        return self.observe(), torch.rand(N_ENVS, generator=self.g)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(3, 48, 8, 4), nn.ReLU(), nn.Conv2d(48, 96, 4, 2), nn.ReLU(), nn.Conv2d(96, 96, 3, 1), nn.ReLU(),
                                 nn.Flatten(), nn.Linear(96 * 49, 512), nn.ReLU())
        self.pi, self.v = nn.Linear(512, ACTIONS), nn.Linear(512, 1)

    def forward(self, obs):
        h = self.cnn(obs.float() / 255)
        return Categorical(logits=self.pi(h), validate_args=False), self.v(h).squeeze(-1)


def collect(env, agent, obs):
    roll = {k: [] for k in ("obs", "action", "logp", "value", "reward")}
    for _ in range(HORIZON):
        obs = obs.cuda()
        dist, value = agent(obs)
        action = dist.sample()
        roll["obs"].append(obs)
        roll["action"].append(action)
        roll["logp"].append(dist.log_prob(action))
        roll["value"].append(value)
        obs, reward = env.step(action.cpu())
        roll["reward"].append(reward.cuda())
    return {k: torch.stack(v) for k, v in roll.items()}, obs


if "--fixed" in sys.argv:
    collect = torch.no_grad()(collect)


def update(agent, optimizer, roll, epochs=2, minibatches=8):
    returns, running = torch.zeros_like(roll["reward"]), 0
    for t in reversed(range(HORIZON)):
        running = roll["reward"][t] + 0.99 * running
        returns[t] = running
    advantage = returns - roll["value"].detach()
    data = [x.detach().flatten(0, 1) for x in (roll["obs"], roll["action"], roll["logp"], returns, advantage)]
    for _ in range(epochs):
        for index in torch.randperm(HORIZON * N_ENVS).chunk(minibatches):
            o, a, old, ret, adv = (x[index.cuda()] for x in data)
            dist, value = agent(o)
            ratio = (dist.log_prob(a) - old).exp()
            surrogate = torch.min(ratio * adv, ratio.clamp(0.8, 1.2) * adv).mean()
            loss = -surrogate + 0.5 * (value - ret).pow(2).mean() - 0.01 * dist.entropy().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return loss.item()


env, agent = Houses(), ActorCritic().cuda()
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
obs = env.observe()
for iteration in range(3):
    roll, obs = collect(env, agent, obs)
    print("iteration", iteration, "loss", update(agent, optimizer, roll))
