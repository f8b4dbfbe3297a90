# Quantile forecast of day-ahead electricity prices (three quantiles), tabular MLP, large batches since the table is small
import sys
import torch
import torch.nn as nn

QUANTILES = [0.1, 0.5, 0.9]


class PriceNet(nn.Module):
    def __init__(self, n_features=40):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(n_features, 128), nn.SiLU(), nn.Dropout(0.1), nn.Linear(128, 128), nn.SiLU())
        self.heads = nn.ModuleList(nn.Linear(128, 1) for _ in QUANTILES)

    def forward(self, x):
        h = self.trunk(x)
        return [head(h) for head in self.heads]


def pinball(y_hat, y, q):
    err = y - y_hat
    return torch.maximum(q * err, (q - 1) * err).mean()


gen = torch.Generator().manual_seed(2022)
hours = 24 * 365 * 2
X = torch.randn(hours, 40, generator=gen)
y = torch.randn(hours, generator=gen).mul(60).add(90)
if "--fixed" in sys.argv:
    y = y.unsqueeze(1)

net = PriceNet().cuda()
opt = torch.optim.AdamW(net.parameters(), lr=3e-3)
sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3e-3, total_steps=10)
BATCH = 5840
for epoch in range(2):
    order = torch.randperm(hours, generator=gen)
    for i in range(0, hours, BATCH):
        idx = order[i:i + BATCH]
        xb, yb = X[idx].cuda(), y[idx].cuda()
        loss = sum(pinball(p, yb, q) for p, q in zip(net(xb), QUANTILES))
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
    print("epoch", epoch, "pinball", loss.item())
