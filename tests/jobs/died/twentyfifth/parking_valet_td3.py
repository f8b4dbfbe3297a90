"""TD3 for automatic parking from four fisheye cameras stitched to a bird's-eye view of 72 x 72."""
import copy
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

fixed = "--fixed" in sys.argv
device = "cuda"


class ReplayBuffer:
    def __init__(self, obs_shape, act_dim, size):
        where, kind = ("cpu", torch.uint8) if fixed else (device, torch.float32)
        self.obs = torch.zeros((size, *obs_shape), dtype=kind, device=where)
        self.next_obs = torch.zeros((size, *obs_shape), dtype=kind, device=where)
        self.act = torch.zeros((size, act_dim), device=where)
        self.rew = torch.zeros(size, device=where)
        self.done = torch.zeros(size, device=where)
        self.where, self.ptr, self.size, self.max_size = where, 0, 0, size

    def store(self, o, a, r, o2, d):
        i = self.ptr
        self.obs[i], self.act[i], self.rew[i] = o.to(self.where), a.to(self.where), r
        self.next_obs[i], self.done[i] = o2.to(self.where), float(d)
        self.ptr = (i + 1) % self.max_size
        self.size = min(self.size + 1, self.max_size)

    def sample(self, n, gen):
        idx = torch.randint(0, self.size, (n,), generator=gen).to(self.where)
        rows = (self.obs[idx], self.act[idx], self.rew[idx], self.next_obs[idx], self.done[idx])
        return [t.to(device).float() for t in rows]


class View(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(),
                         nn.LazyLinear(256), nn.ReLU())


class Actor(nn.Module):
    def __init__(self):
        super().__init__()
        self.view, self.mu = View(), nn.Linear(256, 2)

    def forward(self, o):
        return torch.tanh(self.mu(self.view(o / 255)))


class Critic(nn.Module):
    def __init__(self):
        super().__init__()
        self.view = View()
        self.q1, self.q2 = (nn.Sequential(nn.Linear(258, 256), nn.ReLU(), nn.Linear(256, 1)) for _ in range(2))

    def forward(self, o, a):
        h = torch.cat([self.view(o / 255), a], 1)
        return self.q1(h)[:, 0], self.q2(h)[:, 0]


gen = torch.Generator().manual_seed(0)
actor, critic = Actor().to(device), Critic().to(device)
with torch.no_grad():
    critic(torch.zeros(1, 3, 72, 72, device=device), actor(torch.zeros(1, 3, 72, 72, device=device)))
actor_t, critic_t = copy.deepcopy(actor), copy.deepcopy(critic)
opt_a, opt_c = torch.optim.Adam(actor.parameters(), 1e-4), torch.optim.Adam(critic.parameters(), 1e-4)
buffer = ReplayBuffer((3, 72, 72), 2, size=30_000)

obs = torch.randint(0, 256, (3, 72, 72), dtype=torch.uint8, generator=gen)
for t in range(160):
    with torch.no_grad():
        act = (actor(obs[None].to(device).float())[0] + 0.1 * torch.randn(2, generator=gen).to(device)).clamp(-1, 1)
    nxt = torch.randint(0, 256, (3, 72, 72), dtype=torch.uint8, generator=gen)
    buffer.store(obs, act, float(torch.rand(1, generator=gen)), nxt, t % 40 == 39)
    obs = nxt
    if t < 64 or t % 4:
        continue
    o, a, r, o2, d = buffer.sample(64, gen)
    with torch.no_grad():
        a2 = (actor_t(o2) + (0.2 * torch.randn_like(a)).clamp(-0.5, 0.5)).clamp(-1, 1)
        goal = r + 0.99 * (1 - d) * torch.min(*critic_t(o2, a2))
    q1, q2 = critic(o, a)
    loss = F.mse_loss(q1, goal) + F.mse_loss(q2, goal)
    opt_c.zero_grad(); loss.backward(); opt_c.step()
    if t % 8 == 0:
        policy = -critic(o, actor(o))[0].mean()
        opt_a.zero_grad(); policy.backward(); opt_a.step()
        for net, slow in ((actor, actor_t), (critic, critic_t)):
            for p, q in zip(net.parameters(), slow.parameters()):
                q.data.lerp_(p.data, 0.005)
        print("t", t, "critic", loss.item(), "actor", policy.item())
