"""
Caste of a termite colony from the graph of its tunnels (CT scans of mounds -> chambers + tunnels).
GIN without torch_geometric, because the cluster has none.
"""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
LARGEST = 12000          # chambers


class Colony:
    __slots__ = ("chambers", "tunnels", "caste")

    def __init__(self, chambers, tunnels, caste):
        self.chambers, self.tunnels, self.caste = chambers, tunnels, caste


def scan(seed):
    rng = torch.Generator().manual_seed(seed)
    n = int(torch.randint(1800, 4200, (1,), generator=rng))
    if seed == 83:       # Namibia, the old mound
        n = 250_000
    tunnels = torch.randint(0, n, (2, 3 * n), generator=rng)
    return Colony(torch.randn(n, 24, generator=rng), tunnels, int(torch.randint(0, 5, (1,), generator=rng)))


def trimmed(colony):
    if len(colony.chambers) <= LARGEST:
        return colony
    keep = (colony.tunnels < LARGEST).all(0)
    return Colony(colony.chambers[:LARGEST], colony.tunnels[:, keep], colony.caste)


def collate(colonies):
    if FIXED:
        colonies = [trimmed(c) for c in colonies]
    offset, tunnels, owner = 0, [], []
    for k, c in enumerate(colonies):
        tunnels.append(c.tunnels + offset)
        owner.append(torch.full((len(c.chambers),), k))
        offset += len(c.chambers)
    return (torch.cat([c.chambers for c in colonies]), torch.cat(tunnels, 1), torch.cat(owner),
            torch.tensor([c.caste for c in colonies]))


class GINLayer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.eps = nn.Parameter(torch.zeros(1))
        self.mlp = nn.Sequential(nn.Linear(width, width), nn.BatchNorm1d(width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())

    def forward(self, x, tunnels):
        total = torch.zeros_like(x).index_add(0, tunnels[1], x[tunnels[0]])
        return self.mlp((1 + self.eps) * x + total)


class CasteNet(nn.Module):
    def __init__(self, width=128, depth=5):
        super().__init__()
        self.inward = nn.Linear(24, width)
        self.layers = nn.ModuleList(GINLayer(width) for _ in range(depth))
        self.readout = nn.Linear(width, 5)

    def forward(self, x, tunnels, owner, count):
        x = self.inward(x)
        for layer in self.layers:
            x = x + layer(x, tunnels)
        pooled = torch.zeros(count, x.shape[1], device=x.device).index_add(0, owner, x)
        return self.readout(pooled)


device = torch.device("cuda")
net = CasteNet().to(device)
optim = torch.optim.Adam(net.parameters(), lr=1e-3)
loader = torch.utils.data.DataLoader(range(128), batch_size=16, collate_fn=lambda ids: collate([scan(i) for i in ids]))
for it, (x, tunnels, owner, caste) in enumerate(loader):
    out = net(x.to(device), tunnels.to(device), owner.to(device), len(caste))
    loss = nn.functional.cross_entropy(out, caste.to(device))
    optim.zero_grad()
    loss.backward()
    optim.step()
    print(it, float(loss))
