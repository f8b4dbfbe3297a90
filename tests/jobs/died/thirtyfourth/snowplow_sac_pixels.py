"""SAC from pixels for a snowplough in a car park: three stacked frames of 84x84, replay of 4500 transitions, random shifts."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
FRAME, ACTIONS = (9, 84, 84), 3


class ReplayBuffer:
    def __init__(self, capacity=4500):
        where = {} if FIXED else {"device": "cuda"}
        pixels = torch.uint8 if FIXED else torch.float32
        self.obs = torch.zeros(capacity, *FRAME, dtype=pixels, **where)
        self.next_obs = torch.zeros(capacity, *FRAME, dtype=pixels, **where)
        self.action = torch.zeros(capacity, ACTIONS, **where)
        self.reward = torch.zeros(capacity, 1, **where)
        self.capacity, self.size, self.at = capacity, 0, 0

    def add(self, obs, action, reward, next_obs):
        self.obs[self.at], self.next_obs[self.at] = obs.to(self.obs.dtype), next_obs.to(self.obs.dtype)
        self.action[self.at], self.reward[self.at] = action, reward
        self.at, self.size = (self.at + 1) % self.capacity, min(self.size + 1, self.capacity)

    def sample(self, n):
        i = torch.randint(0, self.size, (n,))
        i = i.to(self.obs.device)
        return [t[i].to("cuda").float() for t in (self.obs, self.action, self.reward, self.next_obs)]


def shift(x, pad=4):
    n, _, h, w = x.shape
    x = F.pad(x, (pad,) * 4, mode="replicate")
    dy, dx = torch.randint(0, 2 * pad + 1, (2,)).tolist()
    return x[:, :, dy:dy + h, dx:dx + w]


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.convs = nn.Sequential(nn.Conv2d(9, 32, 3, 2), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU(), nn.Conv2d(32, 32, 3), nn.ReLU())
        self.out = nn.Sequential(nn.Flatten(), nn.Linear(32 * 37 * 37, 50), nn.LayerNorm(50), nn.Tanh())

    def forward(self, x):
        return self.out(self.convs(x / 255 - 0.5))


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, o))


encoder, actor = Encoder().cuda(), mlp(50, 2 * ACTIONS).cuda()
critics, targets = nn.ModuleList([mlp(50 + ACTIONS, 1) for _ in range(2)]).cuda(), nn.ModuleList([mlp(50 + ACTIONS, 1) for _ in range(2)]).cuda()
critic_opt = torch.optim.Adam([*encoder.parameters(), *critics.parameters()], lr=1e-3)
actor_opt = torch.optim.Adam(actor.parameters(), lr=1e-3)


def act(h):
    mean, log_std = actor(h).chunk(2, -1)
    std = log_std.clamp(-10, 2).exp()
    raw = mean + std * torch.randn_like(std)
    return raw.tanh(), (-0.5 * ((raw - mean) / std) ** 2 - std.log() - torch.log(1 - raw.tanh() ** 2 + 1e-6)).sum(-1, keepdim=True)


replay = ReplayBuffer()
g = torch.Generator().manual_seed(84)
frame = torch.randint(0, 256, FRAME, generator=g)
for step in range(200):
    following = torch.randint(0, 256, FRAME, generator=g)
    replay.add(frame, torch.rand(ACTIONS, generator=g) * 2 - 1, torch.rand(1, generator=g), following)
    frame = following
    if step < 150 or step % 5:
        continue
    obs, action, reward, next_obs = replay.sample(128)
    with torch.no_grad():
        h = encoder(shift(next_obs))
        a, logp = act(h)
        goal = reward + 0.99 * (torch.min(*[q(torch.cat([h, a], 1)) for q in targets]) - 0.1 * logp)
    h = encoder(shift(obs))
    critic_loss = sum(F.mse_loss(q(torch.cat([h, action], 1)), goal) for q in critics)
    critic_opt.zero_grad(), critic_loss.backward(), critic_opt.step()
    a, logp = act(h.detach())
    actor_loss = (0.1 * logp - torch.min(*[q(torch.cat([h.detach(), a], 1)) for q in critics])).mean()
    actor_opt.zero_grad(), actor_loss.backward(), actor_opt.step()
    print(step, critic_loss.item(), actor_loss.item())
