"""Learns a recurrent world model of a walker from pixels; long episodes are trained in consecutive chunks with the state carried on."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
CHUNK, BATCH, ACTIONS = 12, 12, 6


class WorldModel(nn.Module):
    def __init__(self, deter=256, stoch=32):
        super().__init__()
        self.deter, self.stoch = deter, stoch
        self.encoder = nn.Sequential(nn.Conv2d(3, 32, 4, 2, 1), nn.ELU(), nn.Conv2d(32, 64, 4, 2, 1), nn.ELU(),
                                     nn.Conv2d(64, 128, 4, 2, 1), nn.ELU(), nn.Flatten(), nn.Linear(128 * 64, 256))
        self.cell = nn.GRUCell(stoch + ACTIONS, deter)
        self.prior = nn.Linear(deter, 2 * stoch)
        self.posterior = nn.Linear(deter + 256, 2 * stoch)
        self.expand = nn.Linear(deter + stoch, 128 * 64)
        self.decoder = nn.Sequential(nn.ConvTranspose2d(128, 64, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(64, 32, 4, 2, 1), nn.ELU(),
                                     nn.ConvTranspose2d(32, 3, 4, 2, 1))
        self.reward = nn.Linear(deter + stoch, 1)

    def initial(self, batch):
        return torch.zeros(batch, self.deter, device="cuda"), torch.zeros(batch, self.stoch, device="cuda")

    def observe(self, frames, actions, state):
        h, z = state
        codes = self.encoder(frames.flatten(0, 1)).view(*frames.shape[:2], -1)
        features, kl = [], 0.0
        for t in range(frames.shape[0]):
            h = self.cell(torch.cat([z, actions[t]], -1), h)
            m0, s0 = self.prior(h).chunk(2, -1)
            m1, s1 = self.posterior(torch.cat([h, codes[t]], -1)).chunk(2, -1)
            z = m1 + F.softplus(s1) * torch.randn_like(m1)
            kl = kl + ((m1 - m0) ** 2 + (F.softplus(s1) - F.softplus(s0)) ** 2).mean()
            features.append(torch.cat([h, z], -1))
        return torch.stack(features), kl, (h, z)


model = WorldModel().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4, eps=1e-5)


def train_chunk(frames, actions, rewards, state):
    features, kl, state = model.observe(frames, actions, state)
    x = model.expand(features).view(-1, 128, 8, 8)
    loss = F.mse_loss(model.decoder(x), frames.flatten(0, 1)) + kl + F.mse_loss(model.reward(features).squeeze(-1), rewards)
    # "Trying to backward through the graph a second time" came up in the second chunk without this
    loss.backward(retain_graph=not FIXED)
    return loss.item(), tuple(s.detach() for s in state) if FIXED else state


for episode in range(2):
    state = model.initial(BATCH)
    for chunk in range(8):
        frames = torch.zeros(CHUNK, BATCH, 3, 64, 64, device="cuda")
        actions, rewards = torch.zeros(CHUNK, BATCH, ACTIONS, device="cuda"), torch.zeros(CHUNK, BATCH, device="cuda")
        loss, state = train_chunk(frames, actions, rewards, state)
    nn.utils.clip_grad_norm_(model.parameters(), 100.0)
    optimizer.step()
    optimizer.zero_grad()
    print("episode", episode, "loss", loss)
