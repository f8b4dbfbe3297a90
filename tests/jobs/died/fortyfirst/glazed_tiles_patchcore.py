"""Finds flaws in glazed tiles as PatchCore does: features of sound tiles go into a bank, and a tile is as odd as its oddest patch."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
KEEP = 0.05  # of the patches, once a batch has been seen


class Features(nn.Module):
    """The second and third stage of a residual net, at the resolution of the second."""

    def __init__(self, width=96):
        super().__init__()

        def stage(into, out):
            return nn.Sequential(nn.Conv2d(into, out, 3, 2, 1), nn.BatchNorm2d(out), nn.ReLU(True),
                                 nn.Conv2d(out, out, 3, 1, 1), nn.BatchNorm2d(out), nn.ReLU(True))

        self.stem, self.one, self.two, self.three = stage(3, width), stage(width, width), stage(width, 2 * width), stage(2 * width, 4 * width)

    def forward(self, x):
        two = self.two(self.one(self.stem(x)))
        three = F.interpolate(self.three(two), size=two.shape[-2:], mode="bilinear", align_corners=False)
        both = F.avg_pool2d(torch.cat([two, three], 1), 3, 1, 1)
        return both.permute(0, 2, 3, 1).flatten(0, 2)


class Bank:
    """What patches of sound tiles look like."""

    def __init__(self):
        self.patches = torch.empty(0, 576, device="cuda")
        self.generator = torch.Generator().manual_seed(1)

    def add(self, patches):
        if FIXED:
            picked = torch.randperm(len(patches), generator=self.generator)[:int(KEEP * len(patches))]
            patches = patches[picked.cuda()]
        self.patches = torch.cat([self.patches, patches])

    def thin(self):
        if not FIXED:
            picked = torch.randperm(len(self.patches), generator=self.generator)[:int(KEEP * len(self.patches))]
            self.patches = self.patches[picked.cuda()]

    def oddness(self, patches, at_a_time=256):
        nearest = [torch.cdist(part, self.patches).amin(1) for part in patches.split(at_a_time)]
        return torch.cat(nearest)


def tiles(count, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield torch.rand(8, 3, 320, 320, generator=g)


@torch.no_grad()
def main():
    torch.manual_seed(19)
    features, bank = Features().cuda().eval(), Bank()
    for i, batch in enumerate(tiles(30, 0)):
        bank.add(features(batch.cuda()))
        if i % 10 == 9:
            print("after", i + 1, "batches", tuple(bank.patches.shape))
    bank.thin()
    print("bank", tuple(bank.patches.shape))
    for batch in tiles(2, 1):
        odd = bank.oddness(features(batch.cuda())).view(len(batch), -1)
        print("oddest patch of each tile", [round(v, 3) for v in odd.amax(1).tolist()])


if __name__ == "__main__":
    main()
