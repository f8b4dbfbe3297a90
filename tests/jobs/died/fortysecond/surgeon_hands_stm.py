"""Follows a surgeon's hands through a film, with a memory of what earlier frames looked like (as STM does): keys and values by place."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
FRAMES, HEIGHT, WIDTH, KEY, VALUE, EVERY = 160, 368, 640, 64, 512, 1


def down(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, 2, 1), nn.BatchNorm2d(cout), nn.ReLU(True), nn.Conv2d(cout, cout, 3, 1, 1), nn.ReLU(True))


class HandTracker(nn.Module):
    """One encoder for frames, one for frames with masks."""

    def __init__(self):
        super().__init__()
        self.frame = nn.Sequential(down(3, 32), down(32, 64), down(64, 128), down(128, 256))
        self.masked = nn.Sequential(down(4, 32), down(32, 64), down(64, 128), down(128, 256))
        self.key, self.value, self.now = nn.Conv2d(256, KEY, 1), nn.Conv2d(256, VALUE, 1), nn.Conv2d(256, VALUE, 1)
        self.decode = nn.Sequential(nn.Conv2d(2 * VALUE, 128, 3, padding=1), nn.ReLU(), nn.Conv2d(128, 1, 3, padding=1),
                                    nn.Upsample(scale_factor=16, mode="bilinear"))

    def remember(self, frame, mask):
        x = self.masked(torch.cat([frame, mask], 1))
        return self.key(x).flatten(2), self.value(x).flatten(2)

    def look(self, frame, memory):
        keys, values = memory
        x = self.frame(frame)
        query = self.key(x).flatten(2)
        read = []
        for part in query.split(81, 2):  # a few places at a time
            weights = (keys.transpose(1, 2) @ part / KEY ** 0.5).softmax(1)
            read.append(values @ weights)
        found = torch.cat(read, 2).view(1, VALUE, *x.shape[-2:])
        return self.decode(torch.cat([found, self.now(x)], 1)).sigmoid()


class Memory:
    """Keys and values of the frames so far, along the places."""

    def __init__(self, first):
        self.keys, self.values = first
        self.places = self.keys.shape[2]

    def add(self, keys, values):
        self.keys = torch.cat([self.keys, keys], 2)
        self.values = torch.cat([self.values, values], 2)
        if FIXED:  # the first frame, and the last five
            self.keys, self.values = (torch.cat([m[..., :self.places], m[..., self.places:][..., -5 * self.places:]], 2) for m in (self.keys, self.values))


@torch.inference_mode()
def main():
    torch.manual_seed(0)
    model = HandTracker().cuda().eval()
    g = torch.Generator().manual_seed(9)
    frame, mask = torch.rand(1, 3, HEIGHT, WIDTH, generator=g).cuda(), (torch.rand(1, 1, HEIGHT, WIDTH, generator=g) > 0.8).float().cuda()
    memory, share = Memory(model.remember(frame, mask)), []
    for n in range(1, FRAMES):
        frame = torch.rand(1, 3, HEIGHT, WIDTH, generator=g).cuda()
        mask = model.look(frame, (memory.keys, memory.values))
        share.append(mask.mean().item())
        if n % EVERY == 0:
            memory.add(*model.remember(frame, mask))
        if n % 40 == 0:
            print("frame", n, "hands cover", share[-1])


if __name__ == "__main__":
    main()
