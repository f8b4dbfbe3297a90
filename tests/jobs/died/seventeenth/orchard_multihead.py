"""One trunk, three heads for pictures of apple trees: the variety, the number of apples and a map of the leaves."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F

device = torch.device("cuda")
torch.manual_seed(11)


class Trunk(nn.Module):
    def __init__(self):
        super().__init__()
        widths = [3, 32, 64, 96, 128]
        self.stages = nn.ModuleList(
            nn.Sequential(nn.Conv2d(a, b, 3, stride=2 if b > 32 else 1, padding=1), nn.GroupNorm(8, b), nn.SiLU(),
                          nn.Conv2d(b, b, 3, padding=1), nn.GroupNorm(8, b), nn.SiLU())
            for a, b in zip(widths, widths[1:]))

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x


class Orchard(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = Trunk()
        self.variety = nn.Linear(128, 20)
        self.count = nn.Linear(128, 1)
        self.leaves = nn.Sequential(nn.Conv2d(128, 64, 1), nn.PixelShuffle(8), nn.Sigmoid())

    def forward(self, x):
        f = self.trunk(x)
        pooled = f.mean((2, 3))
        return self.variety(pooled), self.count(pooled).squeeze(1), self.leaves(f)


class Report:
    """Remembers the losses of the heads, so that their course can be printed after the epoch."""

    def __init__(self):
        self.rows = []

    def add(self, losses):
        self.rows.append(losses)

    def show(self):
        for name in self.rows[0]:
            course = [float(row[name]) for row in self.rows]
            print(name, "first", course[0], "last", course[-1])


def losses_of(model, x, y):
    variety, count, leaves = model(x)
    return {"variety": F.cross_entropy(variety, y["variety"]), "count": F.smooth_l1_loss(count, y["count"]),
            "leaves": F.mse_loss(leaves, y["leaves"])}


def run(steps=14, batch=8):
    model = Orchard().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    weights = {"variety": 1.0, "count": 0.2, "leaves": 5.0}
    report = Report()
    for step in range(steps):
        x = torch.rand(batch, 3, 160, 160).to(device)
        y = {"variety": torch.randint(0, 20, (batch,)).to(device), "count": torch.rand(batch).mul(60).to(device),
             "leaves": torch.rand(batch, 1, 160, 160).to(device)}
        losses = losses_of(model, x, y)
        optimizer.zero_grad()
        # the heads share the trunk, so its graph is needed by each of them
        for name, loss in losses.items():
            (weights[name] * loss).backward(retain_graph=True)
        optimizer.step()
        if "--fixed" in sys.argv:
            losses = {name: loss.item() for name, loss in losses.items()}
        report.add(losses)
    report.show()


run()
