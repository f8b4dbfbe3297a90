"""Exploration bonus: each step's state embeddings go to an episodic memory, which is one tensor that torch.cat makes anew. It was to be emptied at
the end of an episode; the game never ends."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--envs", type=int, default=128)
parser.add_argument("--horizon", type=int, default=128)
args = parser.parse_args()


class Agent(nn.Module):
    def __init__(self, actions=18, dim=512):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
                                  nn.Flatten())
        self.fc = nn.Sequential(nn.Linear(3136, dim), nn.ReLU())
        self.pi, self.v, self.embed = nn.Linear(dim, actions), nn.Linear(dim, 1), nn.Linear(dim, 1024)

    def forward(self, x):
        h = self.fc(self.conv(x))
        return self.pi(h), self.v(h).squeeze(-1), self.embed(h)


class Memory:
    def __init__(self, limit):
        self.keys, self.limit = None, limit

    def write(self, keys):
        self.keys = keys if self.keys is None else torch.cat([self.keys, keys])
        if self.limit:
            self.keys = self.keys[-self.limit:].clone()

    def novelty(self, keys):
        if self.keys is None:
            return torch.ones(len(keys), device=keys.device)
        sample = self.keys[torch.randint(0, len(self.keys), (256,), device=keys.device)]
        return torch.cdist(keys, sample).topk(10, largest=False).values.mean(1)


agent = Agent().cuda()
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
memory = Memory(16384 if args.fixed else None)
for update in range(12):
    obs, bonus = [], []
    for t in range(0, args.horizon, 16):
        frames = torch.zeros(args.envs * 16, 4, 84, 84, dtype=torch.uint8)
        with torch.no_grad():
            _, _, e = agent(frames.cuda().float() / 255)
            bonus.append(memory.novelty(e).cpu())
            memory.write(e)
        obs.append(frames[:64])
    x = torch.cat(obs).cuda().float() / 255
    target = torch.cat([b[:64] for b in bonus]).cuda()
    logits, value, _ = agent(x)
    loss = F.mse_loss(value, target) - 0.01 * torch.distributions.Categorical(logits=logits).entropy().mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
    optimizer.step()
    print(update, loss.item(), None if memory.keys is None else len(memory.keys))
