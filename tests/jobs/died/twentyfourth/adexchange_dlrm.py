"""Click prediction for an ad exchange: a DLRM with tables for user, creative, site, app and a few small ones."""
import sys

import torch
from torch import nn

FIXED = "--fixed" in sys.argv
ROWS = {"user": 1_800_000, "creative": 1_100_000, "site": 700_000, "app": 350_000, "city": 40_000, "device": 5_000}
DIM = 32


class Dlrm(nn.Module):
    def __init__(self, dense=13):
        super().__init__()
        self.tables = nn.ModuleDict({name: nn.Embedding(rows, DIM, sparse=FIXED, device="cuda") for name, rows in ROWS.items()})
        self.bottom = nn.Sequential(nn.Linear(dense, 128), nn.ReLU(), nn.Linear(128, DIM), nn.ReLU())
        pairs = (len(ROWS) + 1) * len(ROWS) // 2
        self.top = nn.Sequential(nn.Linear(DIM + pairs, 256), nn.ReLU(), nn.Linear(256, 1))
        upper = torch.triu_indices(len(ROWS) + 1, len(ROWS) + 1, offset=1)
        self.register_buffer("upper", upper, persistent=False)

    def forward(self, dense, sparse):
        x = self.bottom(dense)
        vectors = torch.stack([x] + [table(sparse[:, i]) for i, table in enumerate(self.tables.values())], 1)
        products = (vectors @ vectors.transpose(1, 2))[:, self.upper[0], self.upper[1]]
        return self.top(torch.cat([x, products], 1)).squeeze(1)


def impressions(n, size=8192):
    g = torch.Generator().manual_seed(1)
    for _ in range(n):
        sparse = torch.stack([torch.randint(0, rows, (size,), generator=g) for rows in ROWS.values()], 1)
        yield torch.rand(size, 13, generator=g).cuda(), sparse.cuda(), (torch.rand(size, generator=g) < 0.03).float().cuda()


def make_optimizers(model):
    if not FIXED:
        return [torch.optim.Adam(model.parameters(), lr=1e-3)]
    network = [*model.bottom.parameters(), *model.top.parameters()]
    return [torch.optim.Adam(network, lr=1e-3), torch.optim.SGD(model.tables.parameters(), lr=0.1)]


model = Dlrm().cuda()
optimizers = make_optimizers(model)
criterion = nn.BCEWithLogitsLoss()
for step, (dense, sparse, clicked) in enumerate(impressions(8)):
    loss = criterion(model(dense, sparse), clicked)
    for optimizer in optimizers:
        optimizer.zero_grad(set_to_none=True)
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    print(step, loss.item())
