"""PPO for a kart game seen through four stacked frames: collects a rollout from sixteen games, then updates in minibatches, all in one file."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn
from torch.distributions import Categorical


@dataclass
class Args:
    envs: int = 16
    steps: int = 48
    minibatches: int = 8
    epochs: int = 2
    iterations: int = 2
    lr: float = 2.5e-4
    gamma: float = 0.99
    lam: float = 0.95
    clip: float = 0.1
    fixed: bool = "--fixed" in sys.argv


class Karts:
    """A vector of games that run on the CPU."""

    def __init__(self, n):
        self.n, self.frame = n, torch.randint(0, 255, (n, 4, 84, 84), dtype=torch.uint8)

    def reset(self):
        return self.frame

    def step(self, actions):
        return self.frame.roll(1, 0), torch.rand(self.n), torch.zeros(self.n)


def layer(module, gain=2 ** 0.5):
    nn.init.orthogonal_(module.weight, gain)
    nn.init.zeros_(module.bias)
    return module


class Agent(nn.Module):
    def __init__(self, actions=5):
        super().__init__()
        self.network = nn.Sequential(
            layer(nn.Conv2d(4, 32, 8, 4)), nn.ReLU(), layer(nn.Conv2d(32, 64, 4, 2)), nn.ReLU(), layer(nn.Conv2d(64, 64, 3, 1)), nn.ReLU(),
            nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU())
        self.actor, self.critic = layer(nn.Linear(512, actions), 0.01), layer(nn.Linear(512, 1), 1)

    def value(self, x):
        return self.critic(self.network(x.float() / 255)).squeeze(-1)

    def act(self, x, action=None):
        hidden = self.network(x.float() / 255)
        policy = Categorical(logits=self.actor(hidden), validate_args=False)
        if action is None:
            action = policy.sample()
        return action, policy.log_prob(action), policy.entropy(), self.critic(hidden).squeeze(-1)


def collect(args, agent, games, obs, done):
    rollout = {k: [] for k in ("obs", "actions", "logprobs", "rewards", "dones", "values")}
    for _ in range(args.steps):
        frames = obs.cuda()
        action, logprob, _, value = agent.act(frames)
        rollout["obs"].append(frames)
        rollout["dones"].append(done)
        obs, reward, done = games.step(action.cpu().numpy())
        done = done.cuda()
        for key, item in ("actions", action), ("logprobs", logprob), ("values", value), ("rewards", reward.cuda()):
            rollout[key].append(item)
    last = agent.value(obs.cuda())
    return rollout, last, obs, done


def advantages(args, rollout, last, done):
    out, gae, following, alive = [], 0, last, 1 - done
    for t in reversed(range(args.steps)):
        delta = rollout["rewards"][t] + args.gamma * following * alive - rollout["values"][t]
        gae = delta + args.gamma * args.lam * alive * gae
        out.insert(0, gae)
        following, alive = rollout["values"][t], 1 - rollout["dones"][t]
    return torch.stack(out).flatten()


def main():
    args = Args()
    agent = Agent().cuda()
    optimizer = torch.optim.Adam(agent.parameters(), lr=args.lr, eps=1e-5)
    games = Karts(args.envs)
    obs, done = games.reset(), torch.zeros(args.envs).cuda()
    for iteration in range(args.iterations):
        with torch.set_grad_enabled(not args.fixed):
            rollout, last, obs, done = collect(args, agent, games, obs, done)
            adv = advantages(args, rollout, last, done)
        b_obs = torch.stack(rollout["obs"]).flatten(0, 1)
        b_actions, b_logprobs, b_values = (torch.stack(rollout[k]).flatten() for k in ("actions", "logprobs", "values"))
        b_adv, b_returns = adv.detach(), (adv + b_values).detach()
        for _ in range(args.epochs):
            for rows in torch.randperm(len(b_obs)).chunk(args.minibatches):
                rows = rows.cuda()
                _, logprob, entropy, value = agent.act(b_obs[rows], b_actions[rows])
                ratio = (logprob - b_logprobs[rows].detach()).exp()
                a = b_adv[rows]
                policy_loss = torch.max(-a * ratio, -a * ratio.clamp(1 - args.clip, 1 + args.clip)).mean()
                loss = policy_loss + 0.5 * (value - b_returns[rows]).square().mean() - 0.01 * entropy.mean()
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
                optimizer.step()
        print("iteration", iteration, "loss", loss.item())


if __name__ == "__main__":
    main()
