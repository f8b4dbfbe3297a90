"""Forecasts speeds at 2000 road sensors with diffusion convolutions over the road graph (powers of the transition matrix, both directions)."""
import argparse

import torch
from torch import nn

SENSORS, HISTORY, HORIZON = 2000, 12, 12


def road_graph(neighbours=8):
    """The transition matrix of the roads: each sensor with its nearest neighbours."""
    rows = torch.arange(SENSORS).repeat_interleave(neighbours)
    columns = (rows + torch.randint(1, 40, rows.shape)) % SENSORS
    adjacency = torch.zeros(SENSORS, SENSORS)
    adjacency[rows, columns] = 1.0
    return adjacency / adjacency.sum(1, keepdim=True).clamp(min=1)


def supports(adjacency, order):
    """I, A, A^2 ... and the same against the direction of travel."""
    forward, backward = adjacency, adjacency.T / adjacency.T.sum(1, keepdim=True).clamp(min=1e-6)
    out = [torch.eye(SENSORS)]
    for matrix in forward, backward:
        power = matrix
        for _ in range(order):
            out.append(power)
            power = (power.to_sparse() @ matrix).contiguous()
    return torch.stack(out)


class DiffusionConv(nn.Module):
    def __init__(self, cin, cout, matrices, shared):
        super().__init__()
        if shared:
            self.matrices = lambda: matrices
        else:
            self.register_buffer("supports", matrices.clone())
            self.matrices = lambda: self.supports
        self.mix = nn.Linear(len(matrices) * cin, cout)

    def forward(self, x):  # batch, sensors, channels
        moved = [matrix @ x for matrix in self.matrices()]
        return self.mix(torch.cat(moved, -1))


class Block(nn.Module):
    def __init__(self, width, matrices, shared):
        super().__init__()
        self.value, self.gate = DiffusionConv(width, width, matrices, shared), DiffusionConv(width, width, matrices, shared)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + torch.tanh(self.value(x)) * torch.sigmoid(self.gate(x)))


class Forecaster(nn.Module):
    def __init__(self, matrices, shared, width=24, blocks=4):
        super().__init__()
        self.inward = nn.Linear(HISTORY, width)
        self.blocks = nn.Sequential(*[Block(width, matrices, shared) for _ in range(blocks)])
        self.outward = nn.Linear(width, HORIZON)

    def forward(self, x):
        return self.outward(self.blocks(self.inward(x)))


def masked_mae(prediction, target):
    mask = (target > 0).float()
    return ((prediction - target).abs() * mask).sum() / mask.sum().clamp(min=1)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    shared = parser.parse_args().fixed
    matrices = supports(road_graph(), order=2)
    if shared:
        matrices = matrices.to("cuda")
    model = Forecaster(matrices, shared).to("cuda")
    print(sum(p.numel() for p in model.parameters()), "parameters")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step in range(6):
        x, y = torch.rand(8, SENSORS, HISTORY).to("cuda"), torch.rand(8, SENSORS, HORIZON).to("cuda")
        loss = masked_mae(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "MAE", loss.item())


main()
