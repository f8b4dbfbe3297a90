"""PPO from pixels: a gripper sorts blocks. One file, in the manner of CleanRL."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class Args:
    num_envs: int = 32
    num_steps: int = 96
    updates: int = 2
    epochs: int = 2
    minibatch: int = 256
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.2
    fixed: bool = "--fixed" in sys.argv


class BlockWorld:
    """Vectorised toy: the camera sees the table, ten possible motions."""

    def __init__(self, n):
        self.n, self.g = n, torch.Generator().manual_seed(1)

    def observe(self):
        return torch.rand(self.n, 3, 84, 84, generator=self.g)

    def step(self, action):
        reward = torch.rand(self.n, generator=self.g)
        done = (torch.rand(self.n, generator=self.g) < 0.02).float()
        return self.observe(), reward, done


class Agent(nn.Module):
    def __init__(self, actions=10):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(3, 32, 5, 2), nn.ReLU(), nn.Conv2d(32, 64, 3, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
                                 nn.Flatten(), nn.Linear(64 * 17 * 17, 256), nn.ReLU())
        self.actor, self.critic = nn.Linear(256, actions), nn.Linear(256, 1)

    def act(self, obs, action=None):
        h = self.net(obs)
        dist = Categorical(logits=self.actor(h), validate_args=False)
        action = dist.sample() if action is None else action
        return action, dist.log_prob(action), dist.entropy(), self.critic(h).squeeze(-1)


def collect(agent, env, obs, args):
    store = {k: [] for k in ("obs", "action", "logp", "value", "reward", "done")}
    for _ in range(args.num_steps):
        action, logp, _, value = agent.act(obs)
        following, reward, done = env.step(action.cpu())
        for key, item in zip(store, (obs.cpu(), action, logp, value, reward.cuda(), done.cuda())):
            store[key].append(item)
        obs = following.cuda()
    batch = {k: torch.stack(v) for k, v in store.items()}
    advantage, last = torch.zeros_like(batch["reward"]), 0.0
    for t in reversed(range(args.num_steps - 1)):
        live = 1.0 - batch["done"][t]
        delta = batch["reward"][t] + args.gamma * batch["value"][t + 1].detach() * live - batch["value"][t].detach()
        advantage[t] = last = delta + args.gamma * args.lam * live * last
    batch["advantage"], batch["return"] = advantage, advantage + batch["value"].detach()
    return obs, {k: v.detach().flatten(0, 1) for k, v in batch.items()}


def main(args):
    agent, env = Agent().cuda(), BlockWorld(args.num_envs)
    optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    rollout = torch.no_grad()(collect) if args.fixed else collect
    obs = env.observe().cuda()
    for update in range(args.updates):
        obs, batch = rollout(agent, env, obs, args)
        for _ in range(args.epochs):
            for pick in torch.randperm(len(batch["obs"]), generator=env.g).split(args.minibatch):
                mini = {k: v[pick.to(v.device)].cuda() for k, v in batch.items()}
                _, logp, entropy, value = agent.act(mini["obs"], mini["action"])
                ratio = (logp - mini["logp"]).exp()
                gain = torch.min(ratio * mini["advantage"], ratio.clamp(1 - args.clip, 1 + args.clip) * mini["advantage"])
                loss = -gain.mean() + 0.5 * (value - mini["return"]).pow(2).mean() - 0.01 * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print("update", update, "loss", loss.item())


main(Args())
