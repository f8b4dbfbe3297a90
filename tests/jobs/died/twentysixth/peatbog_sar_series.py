"""Water table of peat bogs from a year of radar images, patch by patch."""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split

HOME = "cpu" if "--fixed" in sys.argv else "cuda"


class BogSeries(Dataset):
    """(dates, polarisations, height, width) for each patch, and the depth of the water at its gauge."""

    def __init__(self, patches=3600, dates=12):
        g = torch.Generator().manual_seed(31)
        level = torch.randn(patches, dates, 2, 1, 1, generator=g)
        texture = torch.randn(1, 1, 2, 48, 48, generator=g)
        self.series = (level + 0.2 * texture).to(HOME)
        self.depth = level.mean((1, 2, 3, 4)).to(HOME)
        self.series = (self.series - self.series[:64].mean()) / 1.3

    def __len__(self):
        return len(self.depth)

    def __getitem__(self, i):
        return self.series[i], self.depth[i]


class WaterTable(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.patch = nn.Sequential(nn.Conv2d(2, width, 5, stride=2, padding=2), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, stride=2, padding=1),
                                   nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten())
        self.year = nn.GRU(32 * width, 96, batch_first=True)
        self.depth = nn.Linear(96, 1)

    def forward(self, x):
        b, t = x.shape[:2]
        z = self.patch(x.flatten(0, 1)).view(b, t, -1)
        return self.depth(self.year(z)[0][:, -1]).squeeze(-1)


def main():
    train, test = random_split(BogSeries(), [3000, 600], torch.Generator().manual_seed(0))
    net = WaterTable().cuda()
    opt = torch.optim.Adam(net.parameters(), 1e-3)
    loader = DataLoader(train, batch_size=32, shuffle=True)
    for step, (x, y) in zip(range(12), loader):
        loss = nn.functional.huber_loss(net(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print("step", step, loss.item())
    net.eval()
    with torch.no_grad():
        errors = [(net(x.cuda()) - y.cuda()).abs().mean().item() for _, (x, y) in zip(range(4), DataLoader(test, batch_size=32))]
    print("mean error", sum(errors) / len(errors))


main()
