# PPO for a table-football robot from camera frames. 64 simulated tables in parallel. (after the 37 implementation details post)
import sys

import torch
import torch.nn as nn
from torch.distributions import Categorical

NUM_ENVS, HORIZON, ACTIONS, GAMMA, LAM, CLIP = 64, 96, 9, 0.99, 0.95, 0.2
device = "cuda"


class Tables:
    """stands in for the simulator"""

    def __init__(self):
        self.gen = torch.Generator().manual_seed(4)

    def frames(self):
        return torch.randint(0, 255, (NUM_ENVS, 4, 84, 84), dtype=torch.uint8, generator=self.gen)

    def step(self, rods):
        assert rods.shape == (NUM_ENVS,)
        return self.frames(), torch.rand(NUM_ENVS, generator=self.gen), (torch.rand(NUM_ENVS, generator=self.gen) < 0.01).float()


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Conv2d(4, 32, 8, 4), nn.ReLU(), nn.Conv2d(32, 64, 4, 2), nn.ReLU(), nn.Conv2d(64, 64, 3), nn.ReLU(),
                                   nn.Flatten(), nn.Linear(3136, 512), nn.ReLU())
        self.actor, self.critic = nn.Linear(512, ACTIONS), nn.Linear(512, 1)

    def forward(self, obs, action=None):
        h = self.trunk(obs.to(device).float() / 255)
        dist = Categorical(logits=self.actor(h), validate_args=False)
        action = dist.sample() if action is None else action
        return action, dist.log_prob(action), dist.entropy(), self.critic(h).squeeze(-1)


agent = Agent().to(device)
optimizer = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
envs = Tables()


def collect(obs):
    buf = {"obs": [], "act": [], "logp": [], "val": [], "rew": [], "done": []}
    for _ in range(HORIZON):
        action, logp, _, value = agent(obs)
        buf["obs"].append(obs), buf["act"].append(action), buf["logp"].append(logp), buf["val"].append(value)
        obs, reward, done = envs.step(action.cpu())
        buf["rew"].append(reward.to(device)), buf["done"].append(done.to(device))
    return obs, buf


if "--fixed" in sys.argv:
    collect = torch.no_grad()(collect)

obs = envs.frames()
for update in range(2):
    obs, buf = collect(obs)
    values = torch.stack(buf["val"]).detach()
    advantage, last = torch.zeros_like(values), 0.0
    for t in reversed(range(HORIZON - 1)):
        delta = buf["rew"][t] + GAMMA * values[t + 1] * (1 - buf["done"][t]) - values[t]
        advantage[t] = last = delta + GAMMA * LAM * (1 - buf["done"][t]) * last
    old_logp, actions = torch.stack(buf["logp"]).detach().flatten(), torch.stack(buf["act"]).flatten()
    frames, adv, ret = torch.cat(buf["obs"]), advantage.flatten(), (advantage + values).flatten()
    for epoch in range(2):
        for mb in torch.randperm(len(frames)).split(512):
            _, logp, entropy, value = agent(frames[mb], actions[mb.to(device)])
            at = mb.to(device)
            ratio, a = (logp - old_logp[at]).exp(), adv[at]
            policy_loss = -torch.min(ratio * a, ratio.clamp(1 - CLIP, 1 + CLIP) * a).mean()
            loss = policy_loss + 0.5 * (value - ret[at]).pow(2).mean() - 0.01 * entropy.mean()
            optimizer.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
            optimizer.step()
    print("update", update, "loss", loss.item())
