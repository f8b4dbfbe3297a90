# kaggle kernel: crevasse classes on glacier tiles, plain U-Net baseline
import sys

import torch
import torch.nn as nn

FIXED = '--fixed' in sys.argv
DEVICE = 'cuda'
N_CLASSES, TILE, BS = 12, 224, 16


class DoubleConv(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(True),
                         nn.Conv2d(cout, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(True))


class UNet(nn.Module):
    def __init__(self, feats=(8, 16, 32)):
        super().__init__()
        self.downs, self.ups, self.pool = nn.ModuleList(), nn.ModuleList(), nn.MaxPool2d(2)
        c = 3
        for f in feats:
            self.downs.append(DoubleConv(c, f))
            c = f
        self.bottleneck = DoubleConv(feats[-1], feats[-1] * 2)
        for f in reversed(feats):
            self.ups.append(nn.ConvTranspose2d(f * 2, f, 2, 2))
            self.ups.append(DoubleConv(f * 2, f))
        self.final = nn.Conv2d(feats[0], N_CLASSES, 1)

    def forward(self, x):
        skips = []
        for d in self.downs:
            x = d(x)
            skips.append(x)
            x = self.pool(x)
        x = self.bottleneck(x)
        for i in range(0, len(self.ups), 2):
            x = self.ups[i](x)
            x = self.ups[i + 1](torch.cat((skips.pop(), x), dim=1))
        return self.final(x)


def get_loader(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    img = torch.rand(BS, 3, TILE, TILE, generator=g)
    msk = torch.randint(0, N_CLASSES, (BS, TILE, TILE), generator=g)
    for _ in range(n):
        yield img, msk


def mean_iou(preds, masks):
    inter, union = torch.zeros(N_CLASSES), torch.zeros(N_CLASSES)
    for p, m in zip(preds, masks):
        p = (p.argmax(1) if p.dim() == 4 else p).cpu()
        for c in range(N_CLASSES):
            a, b = p == c, m == c
            inter[c] += (a & b).sum()
            union[c] += (a | b).sum()
    return (inter / union.clamp(min=1)).mean().item()


def train_one_epoch(model, loader, optimizer, loss_fn):
    model.train()
    losses, preds, masks = [], [], []
    for img, msk in loader:
        out = model(img.to(DEVICE))
        loss = loss_fn(out, msk.to(DEVICE))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
        preds.append(out.detach().argmax(1).to(torch.uint8).cpu() if FIXED else out)
        masks.append(msk)
    return sum(losses) / len(losses), mean_iou(preds, masks)


model = UNet().to(DEVICE)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    loss, iou = train_one_epoch(model, get_loader(40, epoch), optimizer, nn.CrossEntropyLoss())
    print(f'epoch {epoch + 1} loss {loss:.4f} train mIoU {iou:.4f}')
