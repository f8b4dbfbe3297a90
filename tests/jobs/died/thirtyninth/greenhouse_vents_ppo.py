"""PPO that opens and shuts the vents of a greenhouse from thermal-camera frames. 96 simulated houses side by side."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
HOUSES, STEPS, ACTIONS = 96, 48, 5
GAMMA, LAM, CLIP = 0.99, 0.95, 0.2


class Houses:
    """Stand-in of the simulator: it runs on the CPU and gives frames."""

    def __init__(self, n):
        self.n, self.t = n, 0

    def frames(self):
        return torch.full((self.n, 3, 84, 84), (self.t % 24) / 24)

    def step(self, actions):
        self.t += 1
        return self.frames(), torch.full((self.n,), 0.1), torch.full((self.n,), float(self.t % 24 == 0))


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.eye = nn.Sequential(nn.Conv2d(3, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(),
                                 nn.Conv2d(64, 64, 3), nn.ReLU(), nn.Flatten(), nn.Linear(3136, 512), nn.ReLU())
        self.pi, self.v = nn.Linear(512, ACTIONS), nn.Linear(512, 1)

    def forward(self, obs):
        h = self.eye(obs)
        return F.log_softmax(self.pi(h), -1), self.v(h).squeeze(-1)


def act(agent, obs):
    logp, value = agent(obs.cuda())
    action = torch.multinomial(logp.exp(), 1)
    return action.squeeze(1), logp.gather(1, action).squeeze(1), value


class Rollout:
    def __init__(self):
        self.obs, self.actions, self.logps, self.values, self.rewards, self.dones = [], [], [], [], [], []

    def collect(self, agent, env, obs):
        for _ in range(STEPS):
            action, logp, value = act(agent, obs)
            following, reward, done = env.step(action)
            for kept, thing in zip((self.obs, self.actions, self.logps, self.values, self.rewards, self.dones),
                                   (obs, action, logp, value, reward.cuda(), done.cuda())):
                kept.append(thing)
            obs = following
        _, last = agent(obs.cuda())
        return obs, last

    def advantages(self, last):
        out, gae, after = [None] * STEPS, 0, last
        for t in reversed(range(STEPS)):
            alive = 1 - self.dones[t]
            delta = self.rewards[t] + GAMMA * after * alive - self.values[t]
            gae = delta + GAMMA * LAM * alive * gae
            out[t], after = gae, self.values[t]
        return torch.stack(out)


if FIXED:
    Rollout.collect = torch.no_grad()(Rollout.collect)

agent = Agent().cuda()
adam = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
env = Houses(HOUSES)
obs = env.frames()
for iteration in range(3):
    roll = Rollout()
    obs, last = roll.collect(agent, env, obs)
    adv = roll.advantages(last)
    returns = (adv + torch.stack(roll.values)).detach().flatten()
    adv = adv.detach().flatten()
    frames, actions = torch.cat(roll.obs), torch.cat(roll.actions)
    old = torch.cat(roll.logps).detach()
    for epoch in range(2):
        for idx in torch.randperm(len(frames)).split(768):
            logp, value = agent(frames[idx].cuda())
            sel = idx.cuda()
            ratio = (logp.gather(1, actions[sel, None]).squeeze(1) - old[sel]).exp()
            a = adv[sel]
            loss = -torch.min(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a).mean()
            loss = loss + 0.5 * F.mse_loss(value, returns[sel]) + 0.01 * (logp.exp() * logp).sum(-1).mean()
            adam.zero_grad()
            loss.backward()
            adam.step()
    print("iteration", iteration, "loss", loss.item())
