"""Dates lacquerware from eight crops of each photograph; every crop votes, and the crops of a photograph share a label."""
import sys
import torch
import torch.nn as nn

fixed = "--fixed" in sys.argv
N_CROPS = 8


def stage(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(8, o), nn.SiLU(), nn.Conv2d(o, o, 3, padding=1), nn.GroupNorm(8, o),
                         nn.SiLU(), nn.MaxPool2d(2))


class LacquerNet(nn.Module):
    def __init__(self, periods=7):
        super().__init__()
        self.features = nn.Sequential(stage(3, 32), stage(32, 64), stage(64, 128), stage(128, 192))
        self.head = nn.Linear(192, periods)

    def forward(self, x):
        return self.head(self.features(x).mean((2, 3)))


def crops_of(photos, size=128):
    """The corners, the edges' middles: eight views of each photograph."""
    h, w = photos.shape[-2:]
    ys, xs = [0, (h - size) // 2, h - size], [0, (w - size) // 2, w - size]
    return [photos[..., y:y + size, x:x + size] for y in ys for x in xs if (y, x) != (ys[1], xs[1])]


def training_step(model, optimizer, photos, period, criterion):
    optimizer.zero_grad()
    if fixed:
        total = 0.0
        for crop in crops_of(photos):
            loss = criterion(model(crop.cuda()), period) / N_CROPS
            loss.backward()
            total += loss.item()
        optimizer.step()
        return total
    loss = 0
    for crop in crops_of(photos):
        loss = loss + criterion(model(crop.cuda()), period)
    loss = loss / N_CROPS
    loss.backward()
    optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(11)
    model = LacquerNet().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-2)
    criterion = nn.CrossEntropyLoss()
    photos = torch.rand(12, 3, 384, 384)
    for i in range(6):
        period = torch.randint(0, 7, (12,)).cuda()
        print(i, training_step(model, optimizer, photos.flip(i % 2 + 2), period, criterion))
