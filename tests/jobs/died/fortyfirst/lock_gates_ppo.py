"""PPO for the gates of a lock, from a camera: which gate opens when, so that boats wait little. A simulator made of noise stands in for the lock."""
import sys
from dataclasses import dataclass, field

import torch
import torch.nn as nn
from torch.distributions import Categorical

FIXED = "--fixed" in sys.argv
BOATS, HORIZON, GATES, GAMMA, LAMBDA = 16, 96, 6, 0.99, 0.95


class ActorCritic(nn.Module):
    """A shared convolutional trunk."""

    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
                                   nn.Flatten(), nn.Linear(64 * 7 * 7, 512), nn.ReLU())
        self.actor, self.critic = nn.Linear(512, GATES), nn.Linear(512, 1)

    def forward(self, frames):
        x = self.trunk(frames)
        return Categorical(logits=self.actor(x), validate_args=False), self.critic(x)[:, 0]


class Lock:
    """16 simulated locks."""

    def __init__(self):
        self.generator = torch.Generator().manual_seed(84)

    def look(self):
        return torch.rand(BOATS, 4, 84, 84, generator=self.generator)

    def step(self, gates):
        return self.look(), torch.rand(BOATS, generator=self.generator), torch.zeros(BOATS)


@dataclass
class Rollout:
    """What happened, step by step."""

    frames: list = field(default_factory=list)
    gates: list = field(default_factory=list)
    log_probs: list = field(default_factory=list)
    values: list = field(default_factory=list)
    rewards: list = field(default_factory=list)


def act(model, frames):
    if FIXED:
        with torch.no_grad():
            policy, value = model(frames)
    else:
        policy, value = model(frames)
    gates = policy.sample()
    return gates, policy.log_prob(gates), value


def collect(model, lock, frames):
    rollout = Rollout()
    for _ in range(HORIZON):
        on_device = frames.cuda()
        gates, log_prob, value = act(model, on_device)
        rollout.frames.append(frames)
        rollout.gates.append(gates)
        rollout.log_probs.append(log_prob)
        rollout.values.append(value)
        frames, reward, _ = lock.step(gates.cpu())
        rollout.rewards.append(reward.cuda())
    return rollout, frames


def advantages(rollout):
    values, last, result = [v.detach() for v in rollout.values], 0, []
    for t in reversed(range(HORIZON)):
        after = values[t + 1] if t + 1 < HORIZON else torch.zeros_like(values[t])
        last = rollout.rewards[t] + GAMMA * after - values[t] + GAMMA * LAMBDA * last
        result.insert(0, last)
    return torch.cat(result), torch.cat(result) + torch.cat(values)


def learn(model, optimizer, rollout):
    frames, gates = torch.cat(rollout.frames), torch.cat(rollout.gates)
    before = torch.cat(rollout.log_probs).detach()
    gain, returns = advantages(rollout)
    for rows in torch.randperm(len(frames)).split(128):
        on = rows.cuda()
        policy, value = model(frames[rows].cuda())
        ratio = (policy.log_prob(gates[on]) - before[on]).exp()
        clipped = torch.min(ratio * gain[on], ratio.clamp(0.8, 1.2) * gain[on])
        loss = -clipped.mean() + 0.5 * (value - returns[on]).pow(2).mean() - 0.01 * policy.entropy().mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(21)
    model, lock = ActorCritic().cuda(), Lock()
    optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-4, eps=1e-5)
    frames = lock.look()
    for update in range(3):
        rollout, frames = collect(model, lock, frames)
        print("update", update, "loss", learn(model, optimizer, rollout))


if __name__ == "__main__":
    main()
