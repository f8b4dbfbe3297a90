"""PPO for a picking robot in a simulated warehouse (64 aisles side by side, camera images)."""
import sys
from contextlib import nullcontext

import torch
import torch.nn as nn
from torch.distributions import Categorical

N_ENVS, HORIZON, ACTIONS = 64, 96, 7
GAMMA, LAM, CLIP = 0.99, 0.95, 0.2
device = "cuda"
acting = torch.no_grad if "--fixed" in sys.argv else nullcontext


class Warehouse:
    """Renders on the CPU; step() gives images, rewards and ends."""

    def __init__(self):
        self.rng = torch.Generator().manual_seed(5)

    def frames(self):
        return torch.randint(0, 255, (N_ENVS, 3, 1, 1), dtype=torch.uint8, generator=self.rng).expand(-1, -1, 84, 84)

    def step(self, actions):
        return self.frames(), torch.rand(N_ENVS, generator=self.rng), (torch.rand(N_ENVS, generator=self.rng) < 0.02).float()


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3, 1), nn.ReLU(),
                                   nn.Flatten(), nn.Linear(3136, 512), nn.ReLU())
        self.pi, self.v = nn.Linear(512, ACTIONS), nn.Linear(512, 1)

    def forward(self, frames):
        h = self.trunk(frames.float() / 255)
        return Categorical(logits=self.pi(h)), self.v(h).squeeze(-1)


class Buffer:
    def __init__(self):
        self.items = {k: [] for k in ("frames", "actions", "logp", "values", "rewards", "ends")}

    def add(self, **kw):
        for k, v in kw.items():
            self.items[k].append(v)

    def advantages(self, last):
        r, d = torch.stack(self.items["rewards"]).to(device), torch.stack(self.items["ends"]).to(device)
        v = torch.stack(self.items["values"] + [last]).detach()
        adv, acc = torch.zeros_like(r), 0
        for t in reversed(range(len(r))):
            delta = r[t] + GAMMA * v[t + 1] * (1 - d[t]) - v[t]
            acc = delta + GAMMA * LAM * (1 - d[t]) * acc
            adv[t] = acc
        return adv, adv + v[:-1]


def collect(agent, env, frames):
    buffer = Buffer()
    with acting():
        for _ in range(HORIZON):
            gpu = frames.to(device)
            dist, value = agent(gpu)
            action = dist.sample()
            following, reward, end = env.step(action.cpu())
            buffer.add(frames=gpu, actions=action, logp=dist.log_prob(action), values=value, rewards=reward, ends=end)
            frames = following
        last = agent(frames.to(device))[1]
    return buffer, last, frames


def main():
    env, agent = Warehouse(), Agent().to(device)
    opt = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
    frames = env.frames()
    for update in range(3):
        buffer, last, frames = collect(agent, env, frames)
        adv, ret = (x.flatten() for x in buffer.advantages(last))
        obs, act = torch.cat(buffer.items["frames"]), torch.cat(buffer.items["actions"])
        old = torch.cat(buffer.items["logp"]).detach()
        for mini in torch.randperm(len(obs)).split(512):
            dist, value = agent(obs[mini.to(device)])
            index = mini.to(device)
            ratio = (dist.log_prob(act[index]) - old[index]).exp()
            gain = torch.min(ratio * adv[index], ratio.clamp(1 - CLIP, 1 + CLIP) * adv[index]).mean()
            loss = -gain + 0.5 * (value - ret[index]).pow(2).mean() - 0.01 * dist.entropy().mean()
            opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            opt.step()
        print("update", update, "loss", loss.item())


main()
