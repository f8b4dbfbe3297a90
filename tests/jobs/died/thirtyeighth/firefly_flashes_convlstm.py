"""Predicts the next frame of a meadow full of synchronous fireflies with a ConvLSTM."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda")
FIXED = "--fixed" in sys.argv


class FireflyDataset(Dataset):
    def __init__(self, nights=2000, frames=24, size=64):
        g = torch.Generator().manual_seed(2)
        phases = torch.rand(nights, 1, 1, 1, generator=g) * 6.28
        places = torch.rand(nights, 1, size, size, generator=g)
        ticks = torch.arange(frames).view(1, frames, 1, 1) * 0.4
        self.clips = (places * torch.sin(ticks + phases)).unsqueeze(2)
        if not FIXED:
            self.clips = self.clips.to(device)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, idx):
        clip = self.clips[idx]
        return clip[:-1], clip[1:]


class ConvLSTMCell(nn.Module):
    def __init__(self, cin, hidden):
        super().__init__()
        self.hidden = hidden
        self.gates = nn.Conv2d(cin + hidden, 4 * hidden, 3, padding=1)

    def forward(self, x, state):
        h, c = state
        i, f, o, g = self.gates(torch.cat([x, h], 1)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class Forecaster(nn.Module):
    def __init__(self, hidden=12):
        super().__init__()
        self.cell, self.draw = ConvLSTMCell(1, hidden), nn.Conv2d(hidden, 1, 1)

    def forward(self, clip):
        zeros = clip.new_zeros(clip.size(0), self.cell.hidden, *clip.shape[-2:])
        state, frames = (zeros, zeros), []
        for t in range(clip.size(1)):
            state = self.cell(clip[:, t], state)
            frames.append(self.draw(state[0]))
        return torch.stack(frames, 1)


train_set = FireflyDataset()
train_loader = DataLoader(train_set, batch_size=4, shuffle=True)
net = Forecaster().to(device)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step, (seen, following) in enumerate(train_loader):
    if step == 15:
        break
    seen, following = seen.to(device), following.to(device)
    loss = nn.functional.mse_loss(net(seen), following)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
