"""Finds cracks and roots in pictures of a sewer camera: pixel by pixel, four kinds of damage."""
import sys
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

torch.manual_seed(1)


def double_conv(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.LeakyReLU(0.1),
                         nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.LeakyReLU(0.1))


class PipeNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.enc1 = double_conv(1, width)
        self.enc2 = double_conv(width, 2 * width)
        self.up = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec = double_conv(2 * width, width)
        self.out = nn.Conv2d(width, 5, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(nn.functional.max_pool2d(a, 2))
        return self.out(self.dec(torch.cat([self.up(b), a], 1)))


def get_loaders(frames):
    damage = torch.randint(0, 5, (len(frames), 112, 112))
    train, val = random_split(TensorDataset(frames, damage), [160, len(frames) - 160])
    size = 16 if "--fixed" in sys.argv else len(val)
    return DataLoader(train, batch_size=16, shuffle=True), DataLoader(val, batch_size=size)


def train_epoch(model, loader, optimizer, criterion):
    model.train()
    for x, y in loader:
        x, y = x.cuda(), y.cuda()
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
    return loss.item()


def validate(model, loader, criterion):
    model.eval()
    total, hits, seen = 0.0, 0, 0
    with torch.no_grad():
        for x, y in loader:
            x, y = x.cuda(), y.cuda()
            out = model(x)
            total += criterion(out, y).item() * len(x)
            hits += (out.argmax(1) == y).sum().item()
            seen += y.numel()
    return total / len(loader.dataset), hits / seen


if __name__ == "__main__":
    train_loader, val_loader = get_loaders(torch.rand(700, 1, 112, 112))
    model = PipeNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.2, 1, 1, 1, 1.0]).cuda())
    for epoch in range(2):
        loss = train_epoch(model, train_loader, optimizer, criterion)
        val_loss, acc = validate(model, val_loader, criterion)
        print(f"{epoch}: train {loss:.3f} val {val_loss:.3f} pixels right {acc:.3f}")
