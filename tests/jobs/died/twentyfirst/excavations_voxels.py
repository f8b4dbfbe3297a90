"""Finds in voxel scans of excavation trenches (36 kinds of finds and soil), trained on the Dice loss."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

KINDS, SIDE = 36, 80


class TrenchNet(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.down1 = nn.Sequential(nn.Conv3d(1, w, 3, stride=2, padding=1), nn.InstanceNorm3d(w), nn.LeakyReLU())
        self.down2 = nn.Sequential(nn.Conv3d(w, 2 * w, 3, stride=2, padding=1), nn.InstanceNorm3d(2 * w), nn.LeakyReLU())
        self.up = nn.Sequential(nn.ConvTranspose3d(2 * w, w, 2, stride=2), nn.LeakyReLU())
        self.out = nn.ConvTranspose3d(2 * w, KINDS, 2, stride=2)

    def forward(self, x):
        a = self.down1(x)
        return self.out(torch.cat([a, self.up(self.down2(a))], 1))


class DiceLoss(nn.Module):
    def __init__(self, eps=1e-5):
        super().__init__()
        self.eps = eps

    def overlap(self, probs, target):
        """Per kind: the sum of the probabilities where it is, and its number of voxels."""
        if "--fixed" in sys.argv:
            hit = probs.gather(1, target[:, None]).flatten()
            kinds = target.flatten()
            zero = torch.zeros(KINDS, device=probs.device)
            return zero.index_add(0, kinds, hit), torch.bincount(kinds, minlength=KINDS)[:KINDS].float()
        mask = F.one_hot(target, KINDS).permute(0, 4, 1, 2, 3)
        return (probs * mask.float()).sum((0, 2, 3, 4)), mask.sum((0, 2, 3, 4)).float()

    def forward(self, logits, target):
        probs = logits.softmax(1)
        common, size = self.overlap(probs, target)
        dice = (2 * common + self.eps) / (probs.sum((0, 2, 3, 4)) + size + self.eps)
        return 1 - dice.mean()


def trench(gen, batch=2):
    scan = torch.rand(batch, 1, SIDE, SIDE, SIDE, generator=gen)
    return scan.cuda(), torch.randint(0, KINDS, (batch, SIDE, SIDE, SIDE), generator=gen).cuda()


def main():
    gen = torch.Generator().manual_seed(3)
    net, criterion = TrenchNet().cuda(), DiceLoss()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.99, nesterov=True)
    for step in range(8):
        scan, kinds = trench(gen)
        loss = criterion(net(scan), kinds)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "dice loss", loss.item())


main()
