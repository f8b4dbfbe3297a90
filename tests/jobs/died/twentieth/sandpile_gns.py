"""Learned simulator of granular flow (a graph network over neighbouring grains), trained with the pushforward trick:
a few steps by the network itself to get a realistic error, then a loss on the step after them."""
import sys

import torch
from torch import nn

PUSH = 4
GRAINS, NEIGHBOURS, HIDDEN = 4000, 12, 96


def mlp(i, o):
    return nn.Sequential(nn.Linear(i, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, o))


class Interaction(nn.Module):
    def __init__(self):
        super().__init__()
        self.edge, self.node = mlp(3 * HIDDEN, HIDDEN), mlp(2 * HIDDEN, HIDDEN)

    def forward(self, h, e, src, dst):
        e = e + self.edge(torch.cat([e, h[src], h[dst]], -1))
        gathered = torch.zeros_like(h).index_add(0, dst, e)
        return h + self.node(torch.cat([h, gathered], -1)), e


class Simulator(nn.Module):
    def __init__(self, rounds=5):
        super().__init__()
        self.encode_node, self.encode_edge = mlp(6, HIDDEN), mlp(4, HIDDEN)
        self.rounds = nn.ModuleList(Interaction() for _ in range(rounds))
        self.decode = mlp(HIDDEN, 3)

    def forward(self, position, velocity, src, dst):
        offset = position[src] - position[dst]
        e = self.encode_edge(torch.cat([offset, offset.norm(dim=-1, keepdim=True)], -1))
        h = self.encode_node(torch.cat([position, velocity], -1))
        for interaction in self.rounds:
            h, e = interaction(h, e, src, dst)
        velocity = velocity + 0.01 * self.decode(h)
        return position + 0.01 * velocity, velocity


def neighbours(generator):
    src = torch.randint(0, GRAINS, (GRAINS * NEIGHBOURS,), generator=generator)
    return src, torch.arange(GRAINS).repeat_interleave(NEIGHBOURS)


generator = torch.Generator().manual_seed(3)
model = Simulator().to("cuda")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for step in range(8):
    position = torch.rand(GRAINS, 3, generator=generator).to("cuda")
    velocity = torch.zeros(GRAINS, 3).to("cuda")
    truth = torch.rand(GRAINS, 3, generator=generator).to("cuda")
    src, dst = (t.to("cuda") for t in neighbours(generator))
    for _ in range(PUSH):
        if "--fixed" in sys.argv:
            with torch.no_grad():
                position, velocity = model(position, velocity, src, dst)
        else:
            position, velocity = model(position, velocity, src, dst)
    position, velocity = model(position, velocity, src, dst)
    loss = (position - truth).square().sum(-1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}  loss {loss.item():.5f}")
