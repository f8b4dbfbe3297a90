"""Convolutional autoencoder for 128 x 128 faces, with the meters of a well-known example.

After https://github.com/horovod/horovod/pull/641 and https://github.com/GBLin5566/toward-controlled-generation-of-text-pytorch/issues/9
"""
import argparse
import time

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset


class Faces(Dataset):
    def __len__(self):
        return 32 * 10

    def __getitem__(self, i):
        return torch.full((3, 128, 128), i / 320)


class AverageMeter:
    def __init__(self, name):
        self.name, self.sum, self.count, self.val = name, 0, 0, 0

    def update(self, val, n=1):
        self.val = val
        self.sum = self.sum + val * n
        self.count += n

    def __str__(self):
        return "%s %.3f (%.3f)" % (self.name, self.val, self.sum / self.count)


def down(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 4, 2, 1), nn.BatchNorm2d(cout), nn.LeakyReLU(0.2))


def up(cin, cout):
    return nn.Sequential(nn.ConvTranspose2d(cin, cout, 4, 2, 1), nn.BatchNorm2d(cout), nn.ReLU())


class AutoEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 3, padding=1)
        self.encoder = nn.Sequential(down(64, 128), down(128, 256), down(256, 512), down(512, 512), nn.Flatten())
        self.code = nn.Linear(512 * 64, 128)
        self.grow = nn.Linear(128, 512 * 64)
        self.decoder = nn.Sequential(up(512, 512), up(512, 256), up(256, 128), up(128, 64), nn.Conv2d(64, 3, 3, padding=1), nn.Sigmoid())

    def forward(self, x):
        z = self.code(self.encoder(self.stem(x)))
        return self.decoder(self.grow(z).view(-1, 512, 8, 8)), z


def train(loader, model, optimizer, fixed):
    losses, batch_time = AverageMeter("Loss"), AverageMeter("Time")
    end = time.time()
    for i, images in enumerate(loader):
        images = images.cuda(non_blocking=True)
        output, code = model(images)
        reconstruction, penalty = nn.functional.mse_loss(output, images), 1e-4 * code.pow(2).mean()
        losses.update(reconstruction.item() if fixed else reconstruction, images.size(0))
        optimizer.zero_grad()
        reconstruction.backward(retain_graph=True)
        penalty.backward()
        optimizer.step()
        batch_time.update(time.time() - end)
        end = time.time()
        print(i, batch_time, losses)


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--fixed", action="store_true")
    a = p.parse_args()
    net = AutoEncoder().cuda()
    train(DataLoader(Faces(), batch_size=32, shuffle=True, pin_memory=True), net, torch.optim.Adam(net.parameters(), 2e-4), a.fixed)
