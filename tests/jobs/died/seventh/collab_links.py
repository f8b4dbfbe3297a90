"""Predicts who will write papers together: two layers of graph convolution, sampled pairs in training, and hits among all authors in validation."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
AUTHORS, EDGES, DIM, PAIRS = 14_000, 120_000, 128, 8192


class GraphConv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.own, self.near = nn.Linear(cin, cout), nn.Linear(cin, cout, bias=False)

    def forward(self, x, index):
        a, b = index
        return self.own(x) + torch.zeros_like(x).index_add(0, a, self.near(x)[b])


class Authors(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(AUTHORS, DIM)
        self.first, self.second = GraphConv(DIM, DIM), GraphConv(DIM, DIM)
        self.score = nn.Sequential(nn.Linear(DIM, DIM), nn.ReLU(), nn.Linear(DIM, 1))

    def forward(self, edges):
        x = F.relu(self.first(self.embedding.weight, edges))
        return self.second(F.dropout(x, 0.3, self.training), edges)

    def pairs(self, x, a, b):
        return self.score(x[a] * x[b]).squeeze(-1)


def graph():
    generator = torch.Generator().manual_seed(13)
    index = torch.randint(0, AUTHORS, (2, EDGES), generator=generator)
    return index, index.cuda()


@torch.no_grad()
def hits(model, edges, held_out, k=50):
    """In how many of the held-out pairs the other author is among the K best."""
    model.eval()
    x = model(edges)
    size = 512 if FIXED else len(x)
    found = 0
    best = []
    for rows in x.split(size):
        scores = torch.sigmoid(rows @ x.T)
        best.append(scores.topk(k, dim=-1).indices.cpu())
    best = torch.cat(best)
    for a, b in held_out.T.tolist():
        found += int((best[a] == b).any())
    return found / held_out.size(1)


def train_epoch(model, edges, index, optimizer):
    model.train()
    for start in range(0, EDGES // 6, PAIRS):
        a, b = index[:, start:start + PAIRS].cuda()
        wrong = torch.randint(0, AUTHORS, (len(a),), device="cuda")
        x = model(edges)
        loss = -F.logsigmoid(model.pairs(x, a, b)).mean() - F.logsigmoid(-model.pairs(x, a, wrong)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    index, edges = graph()
    model = Authors().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    for epoch in range(2):
        loss = train_epoch(model, edges, index, optimizer)
        print("epoch", epoch, "loss", loss, "hits", hits(model, edges, index[:, -500:]))
