"""GraphSAGE over the whole co-purchase graph at once, with messages made from edge features.

After https://github.com/pyg-team/pytorch_geometric/issues/459 and https://github.com/WeijingShi/Point-GNN/issues/36
"""
import argparse

import torch
from torch import nn
from torch.nn import functional as F


class EdgeSage(nn.Module):
    def __init__(self, cin, cout, edge):
        super().__init__()
        self.message = nn.Linear(cin + edge, cout)
        self.own = nn.Linear(cin, cout)
        self.neighbours = nn.Linear(cout, cout)

    def forward(self, x, edge_index, edge_attr):
        source, target = edge_index
        messages = F.relu(self.message(torch.cat([x[source], edge_attr], -1)))
        total = torch.zeros(len(x), messages.size(1), device=x.device).index_add(0, target, messages)
        degree = torch.zeros(len(x), device=x.device).index_add(0, target, torch.ones_like(target, dtype=x.dtype)).clamp(min=1)
        return self.own(x) + self.neighbours(total / degree.unsqueeze(1))


class Net(nn.Module):
    def __init__(self, cin=100, hidden=192, classes=47, edge=16, layers=3):
        super().__init__()
        sizes = [cin] + [hidden] * (layers - 1) + [classes]
        self.layers = nn.ModuleList([EdgeSage(a, b, edge) for a, b in zip(sizes, sizes[1:])])
        self.norms = nn.ModuleList([nn.LayerNorm(hidden) for _ in range(layers - 1)])

    def forward(self, x, edge_index, edge_attr):
        for layer, norm in zip(self.layers, self.norms):
            x = F.dropout(F.relu(norm(layer(x, edge_index, edge_attr))), 0.3, self.training)
        return self.layers[-1](x, edge_index, edge_attr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nodes", type=int, default=60_000)
    parser.add_argument("--edges", type=int, default=900_000)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    parts = 8 if args.fixed else 1  # clusters, of which an epoch takes one at a time
    n, e = args.nodes // parts, args.edges // parts
    model = Net().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    for epoch in range(args.epochs):
        for _ in range(parts):
            x, labels = torch.zeros(n, 100).cuda(), torch.randint(47, (n,)).cuda()
            edge_index, edge_attr = torch.randint(n, (2, e)).cuda(), torch.zeros(e, 16).cuda()
            loss = F.cross_entropy(model(x, edge_index, edge_attr), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            del x, edge_index, edge_attr
        print("epoch", epoch, loss.item())


if __name__ == "__main__":
    main()
