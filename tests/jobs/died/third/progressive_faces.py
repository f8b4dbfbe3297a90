"""Face attributes with growing image sizes. Each stage starts with an Adam of its own; the old ones are kept in `stages`, with their schedulers,
for the plot of learning rates at the end."""
import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--sizes", type=int, nargs="+", default=[32, 40, 48, 56, 64])
args = parser.parse_args()


class Faces(nn.Module):
    def __init__(self, attributes=40):
        super().__init__()
        widths = [3, 128, 256, 512, 1024]
        self.trunk = nn.ModuleList([nn.Conv2d(a, b, 3, 2, 1) for a, b in zip(widths, widths[1:])])
        self.mlp = nn.Sequential(nn.Linear(1024 * 16, 2048), nn.ReLU(), nn.Dropout(), nn.Linear(2048, attributes))

    def forward(self, x):
        for conv in self.trunk:
            x = torch.relu(conv(x))
        return self.mlp(nn.functional.adaptive_avg_pool2d(x, 4).flatten(1))


model = Faces().cuda()
stages = []
for size in args.sizes:
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-3, total_steps=10, cycle_momentum=False)
    curve = []
    for _ in range(2):
        x, y = torch.rand(16, 3, size, size), torch.randint(0, 2, (16, 40)).float()
        loss = nn.functional.binary_cross_entropy_with_logits(model(x.cuda()), y.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        curve.append(scheduler.get_last_lr()[0])
    stages.append({"size": size, "lr": curve} if args.fixed else {"size": size, "lr": curve, "scheduler": scheduler})
    print(size, loss.item())
print([s["lr"][-1] for s in stages])
