# PPO for a biped in simulation, from pixels. Vectorised environments give 84x84 frames.
import sys
import torch
import torch.nn as nn
from torch.distributions import Categorical

num_envs, num_steps, minibatch = 24, 24, 48
n_actions = 9
fixed = "--fixed" in sys.argv


class FakeVecEnv:
    def __init__(self, n):
        self.n = n
        self.rng = torch.Generator().manual_seed(11)

    def _frame(self):
        return torch.randint(0, 255, (self.n, 4, 84, 84), generator=self.rng, dtype=torch.uint8)

    def reset(self):
        return self._frame()

    def step(self, a):
        return self._frame(), torch.rand(self.n, generator=self.rng), (torch.rand(self.n, generator=self.rng) < 0.01).float()


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cnn = nn.Sequential(nn.Conv2d(4, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2),
                                 nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(64 * 21 * 21, 256), nn.ReLU())
        self.pi, self.v = nn.Linear(256, n_actions), nn.Linear(256, 1)

    def get_action_and_value(self, x, action=None):
        h = self.cnn(x.float() / 255)
        dist = Categorical(logits=self.pi(h), validate_args=False)
        if action is None:
            action = dist.sample()
        return action, dist.log_prob(action), dist.entropy(), self.v(h).squeeze(-1)


envs, agent = FakeVecEnv(num_envs), Agent().cuda()
opt = torch.optim.Adam(agent.parameters(), lr=2.5e-4, eps=1e-5)
obs = envs.reset()
for update in range(3):
    buf = {k: [] for k in ("obs", "act", "logp", "val", "rew", "done")}
    for t in range(num_steps):
        with torch.set_grad_enabled(not fixed):
            act, logp, _, val = agent.get_action_and_value(obs.cuda())
        nxt, rew, done = envs.step(act.cpu())
        for k, v in zip(buf, (obs, act, logp, val, rew.cuda(), done.cuda())):
            buf[k].append(v)
        obs = nxt
    adv, last = [], torch.zeros(num_envs, device="cuda")
    for t in reversed(range(num_steps)):
        nextval = buf["val"][t + 1] if t + 1 < num_steps else buf["val"][t]
        delta = buf["rew"][t] + 0.99 * nextval.detach() * (1 - buf["done"][t]) - buf["val"][t].detach()
        last = delta + 0.99 * 0.95 * (1 - buf["done"][t]) * last
        adv.insert(0, last)
    b_obs, b_act = torch.cat(buf["obs"]), torch.cat(buf["act"])
    b_logp, b_val, b_adv = torch.cat(buf["logp"]).detach(), torch.cat(buf["val"]).detach(), torch.cat(adv)
    b_ret = b_adv + b_val
    for idx in torch.randperm(num_envs * num_steps).split(minibatch):
        i = idx.cuda()
        _, newlogp, ent, newval = agent.get_action_and_value(b_obs[idx].cuda(), b_act[i])
        ratio = (newlogp - b_logp[i]).exp()
        pg = -torch.min(ratio * b_adv[i], ratio.clamp(0.8, 1.2) * b_adv[i]).mean()
        loss = pg + 0.5 * (newval - b_ret[i]).pow(2).mean() - 0.01 * ent.mean()
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(agent.parameters(), 0.5)
        opt.step()
    print("update", update, "loss", loss.item())
