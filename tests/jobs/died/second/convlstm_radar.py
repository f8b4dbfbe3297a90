"""Rain radar nowcasting: a ConvLSTM reads a day in clips, and the state goes from clip to clip.

backward() complained about a graph that was freed, which retain_graph=True cured. The optimizer steps once a day of radar.
After https://github.com/pytorch/pytorch/issues/2198
"""
import sys

import torch
from torch import nn


class ConvLSTMCell(nn.Module):
    def __init__(self, inputs, hidden, kernel=5):
        super().__init__()
        self.hidden = hidden
        self.conv = nn.Conv2d(inputs + hidden, 4 * hidden, kernel, padding=kernel // 2)

    def forward(self, x, state):
        h, c = state
        i, f, o, g = self.conv(torch.cat([x, h], 1)).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c


class Nowcaster(nn.Module):
    def __init__(self, hidden=96, layers=2):
        super().__init__()
        self.cells = nn.ModuleList([ConvLSTMCell(1 if i == 0 else hidden, hidden) for i in range(layers)])
        self.head = nn.Conv2d(hidden, 1, 1)

    def start(self, batch, size, device):
        return [(torch.zeros(batch, c.hidden, size, size, device=device), torch.zeros(batch, c.hidden, size, size, device=device))
                for c in self.cells]

    def forward(self, clip, states):
        outs = []
        for t in range(clip.size(1)):
            x = clip[:, t]
            for i, cell in enumerate(self.cells):
                states[i] = cell(x, states[i])
                x = states[i][0]
            outs.append(self.head(x))
        return torch.stack(outs, 1), states


FIXED = "--fixed" in sys.argv
device = "cuda"
size, batch, frames = 96, 4, 4
model = Nowcaster().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
for day in range(1):
    states = model.start(batch, size, device)
    optimizer.zero_grad()
    for clip in range(10):
        radar = torch.rand(batch, frames + 1, 1, size, size).to(device)
        out, states = model(radar[:, :-1], states)
        loss = nn.functional.l1_loss(out, radar[:, 1:])
        if FIXED:
            loss.backward()
            states = [(h.detach(), c.detach()) for h, c in states]
        else:
            loss.backward(retain_graph=True)
        print("clip", clip, loss.item())
    optimizer.step()
