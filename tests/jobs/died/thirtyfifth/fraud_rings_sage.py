"""Looks for rings of fraudulent accounts in a payment graph. GraphSAGE over learned account vectors; the best epochs are ensembled."""
import copy
import sys

import torch
import torch.nn.functional as F
from torch import nn

ACCOUNTS, EDGES, DIM = 400_000, 60_000, 64


class SageLayer(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.own, self.other = nn.Linear(a, b), nn.Linear(a, b, bias=False)

    def forward(self, x, edges):
        source, target = edges
        gathered = torch.zeros_like(x).index_add_(0, target, x[source])
        degree = torch.zeros(len(x), 1, device=x.device).index_add_(0, target, torch.ones(len(target), 1, device=x.device)).clamp_(min=1)
        return self.own(x) + self.other(gathered / degree)


class RingFinder(nn.Module):
    def __init__(self):
        super().__init__()
        self.accounts = nn.Embedding(ACCOUNTS, DIM, sparse=True)
        self.layers = nn.ModuleList([SageLayer(DIM, 128), SageLayer(128, 128)])
        self.head = nn.Linear(128, 2)

    def forward(self, nodes, edges):
        x = self.accounts(nodes)
        for layer in self.layers:
            x = F.relu(layer(x, edges))
        return self.head(x)


class Subgraphs:
    def __init__(self, count, nodes=6000, seed=0):
        self.count, self.nodes, self.seed = count, nodes, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.count):
            nodes = torch.randint(0, ACCOUNTS, (self.nodes,), generator=g)
            edges = torch.randint(0, self.nodes, (2, EDGES), generator=g)
            yield nodes.cuda(), edges.cuda(), torch.randint(0, 2, (self.nodes,), generator=g).cuda()


def keep(model):
    if "--fixed" in sys.argv:
        return {name: value.cpu().clone() for name, value in model.state_dict().items()}
    return copy.deepcopy(model)


@torch.no_grad()
def score(model, graphs):
    model.eval()
    return sum(F.cross_entropy(model(n, e), y).item() for n, e, y in graphs)


def main(epochs=10):
    model = RingFinder().cuda()
    dense = [p for name, p in model.named_parameters() if "accounts" not in name]
    optimizers = [torch.optim.SparseAdam([model.accounts.weight], lr=1e-3), torch.optim.Adam(dense, lr=1e-3)]
    snapshots = []
    for epoch in range(epochs):
        model.train()
        for nodes, edges, ring in Subgraphs(3, seed=epoch):
            loss = F.cross_entropy(model(nodes, edges), ring, weight=torch.tensor([1.0, 20.0], device="cuda"))
            for o in optimizers:
                o.zero_grad()
            loss.backward()
            for o in optimizers:
                o.step()
        snapshots.append((score(model, Subgraphs(1, seed=99)), epoch, keep(model)))
        print("epoch", epoch, "loss", loss.item(), "valid", snapshots[-1][0])
    print("members of the ensemble", [e for _, e, _ in sorted(snapshots, key=lambda s: s[:2])[:3]])


main()
