"""Node classification on a citation graph, full batch. The node embeddings of every epoch are collected to draw how they move.
See https://github.com/allenai/allennlp/issues/2515 ("the computation graph may be not released")."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

NODES, EDGES, FEATURES, CLASSES = 120_000, 180_000, 128, 40


class SageLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.own, self.other = nn.Linear(i, o), nn.Linear(i, o, bias=False)

    def forward(self, x, src, dst, degree):
        summed = torch.zeros_like(x).index_add_(0, dst, x[src])
        return self.own(x) + self.other(summed / degree)


class Net(nn.Module):
    def __init__(self, width=256):
        super().__init__()
        self.first, self.second = SageLayer(FEATURES, width), SageLayer(width, width)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, x, *graph):
        x = F.dropout(F.relu(self.first(x, *graph)), 0.5, self.training)
        z = F.relu(self.second(x, *graph))
        return self.head(z), z


def main():
    dev = "cuda:0"
    x = torch.randn(NODES, FEATURES, device=dev)
    y = torch.randint(0, CLASSES, (NODES,), device=dev)
    src, dst = torch.randint(0, NODES, (2, EDGES), device=dev)
    degree = torch.ones(NODES, 1, device=dev)
    model = Net().to(dev)
    opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
    trajectory = []
    for epoch in range(12):
        opt.zero_grad()
        out, z = model(x, src, dst, degree)
        loss = F.cross_entropy(out, y)
        loss.backward()
        opt.step()
        trajectory.append(z[:2000].detach().cpu() if "--fixed" in sys.argv else z)
        print(f"epoch {epoch} loss {loss.item():.3f}")


main()
