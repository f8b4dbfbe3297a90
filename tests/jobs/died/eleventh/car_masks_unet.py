"""Cuts cars out of their background with the U-Net of the well-known repository, trained with mixed precision and RMSprop."""
import argparse
import logging

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class CarDataset(Dataset):
    """Photos of 640 x 960; --scale makes them smaller, as in the README."""

    def __init__(self, n, scale):
        self.n, self.size = n, (int(640 * scale), int(960 * scale))
        self.image, self.mask = torch.rand(3, *self.size), torch.zeros(self.size, dtype=torch.long)

    def __len__(self):
        return self.n

    def __getitem__(self, index):
        return {"image": self.image, "mask": self.mask}


class DoubleConv(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Down(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.MaxPool2d(2), DoubleConv(cin, cout))


class Up(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.up = nn.ConvTranspose2d(cin, cin // 2, 2, stride=2)
        self.conv = DoubleConv(cin, cout)

    def forward(self, x, skip):
        x = self.up(x)
        dy, dx = skip.shape[2] - x.shape[2], skip.shape[3] - x.shape[3]
        x = F.pad(x, [dx // 2, dx - dx // 2, dy // 2, dy - dy // 2])
        return self.conv(torch.cat([skip, x], 1))


class UNet(nn.Module):
    def __init__(self, classes=2, width=32):
        super().__init__()
        self.inc = DoubleConv(3, width)
        self.downs = nn.ModuleList(Down(width << k, width << k + 1) for k in range(4))
        self.ups = nn.ModuleList(Up(width << k + 1, width << k) for k in reversed(range(4)))
        self.outc = nn.Conv2d(width, classes, 1)

    def forward(self, x):
        skips = [self.inc(x)]
        for down in self.downs:
            skips.append(down(skips[-1]))
        x = skips.pop()
        for up in self.ups:
            x = up(x, skips.pop())
        return self.outc(x)


def dice_loss(probabilities, target):
    inter = 2 * (probabilities * target).sum((-1, -2))
    return 1 - ((inter + 1e-6) / (probabilities.sum((-1, -2)) + target.sum((-1, -2)) + 1e-6)).mean()


def train_model(args, device):
    loader = DataLoader(CarDataset(args.batch_size * 4, args.scale), batch_size=args.batch_size)
    model = UNet().to(device, memory_format=torch.channels_last)
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-5, weight_decay=1e-8, momentum=0.999)
    scaler = torch.amp.GradScaler("cuda")
    for step, batch in enumerate(loader):
        images = batch["image"].to(device, memory_format=torch.channels_last)
        masks = batch["mask"].to(device)
        with torch.autocast("cuda", dtype=torch.float16):
            prediction = model(images)
            loss = F.cross_entropy(prediction, masks) + dice_loss(prediction.softmax(1)[:, 1].float(), masks.float())
        optimizer.zero_grad(set_to_none=True)
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        logging.info("step %d loss %.3f", step, loss.item())


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO)
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch-size", type=int, default=4)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    args.scale = 0.5 if args.fixed else 1.0
    train_model(args, torch.device("cuda"))
