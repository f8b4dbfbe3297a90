"""Which storm drains will clog: a graph attention network over the drains of towns, several towns in a batch (plain torch, edges by index)."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
FEATURES, WIDTH, HEADS = 24, 128, 4


class GATv2(nn.Module):
    """Attention over the edges that arrive at a node."""

    def __init__(self, cin):
        super().__init__()
        self.left, self.right = nn.Linear(cin, WIDTH), nn.Linear(cin, WIDTH)
        self.score = nn.Parameter(torch.randn(HEADS, WIDTH // HEADS) * 0.1)
        self.norm = nn.LayerNorm(WIDTH)

    def forward(self, x, source, target):
        a, b = self.left(x)[source], self.right(x)[target]
        e = (nn.functional.leaky_relu(a + b, 0.2).view(-1, HEADS, WIDTH // HEADS) * self.score).sum(-1)
        w = (e - e.max()).exp()
        total = torch.zeros(len(x), HEADS, device=x.device).index_add(0, target, w)
        w = w / (total[target] + 1e-9)
        messages = (a.view(-1, HEADS, WIDTH // HEADS) * w[..., None]).flatten(1)
        return self.norm(torch.zeros(len(x), WIDTH, device=x.device).index_add(0, target, messages)).relu()


class Clogging(nn.Module):
    """Four layers and a score per drain."""

    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList([GATv2(FEATURES), GATv2(WIDTH), GATv2(WIDTH), GATv2(WIDTH)])
        self.out = nn.Linear(WIDTH, 1)

    def forward(self, x, source, target):
        for layer in self.layers:
            x = layer(x, source, target)
        return self.out(x)[:, 0]


def town(drains, seed):
    """Drains of a town, each with six neighbours."""
    g = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, drains, (2, 6 * drains), generator=g)
    return torch.rand(drains, FEATURES, generator=g), edges, (torch.rand(drains, generator=g) < 0.1).float()


def parts(x, edges, clogged, most):
    """Cuts a large town into districts; the pipes between them are lost."""
    for start in range(0, len(x), most):
        stop = min(start + most, len(x))
        inside = ((edges >= start) & (edges < stop)).all(0)
        yield x[start:stop], edges[:, inside] - start, clogged[start:stop]


def collate(towns):
    shift, xs, es, ys = 0, [], [], []
    for x, edges, clogged in towns:
        xs.append(x)
        es.append(edges + shift)
        ys.append(clogged)
        shift += len(x)
    return torch.cat(xs), torch.cat(es, 1), torch.cat(ys)


def main():
    torch.manual_seed(3)
    sizes = [9000, 7000, 8000, 6500, 9500, 7200, 8800, 6900, 7700, 90000, 8100, 7400]  # the tenth is the capital
    towns = [town(n, i) for i, n in enumerate(sizes)]
    if FIXED:
        towns = [part for t in towns for part in parts(*t, 10000)]
    model = Clogging().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for start in range(0, len(towns), 2):
        x, (source, target), clogged = (part.cuda() for part in collate(towns[start:start + 2]))
        loss = nn.functional.binary_cross_entropy_with_logits(model(x, source, target), clogged)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("towns", start, "to", min(start + 2, len(towns)), "drains", len(x), "loss", loss.item())


if __name__ == "__main__":
    main()
