"""Wildfire cameras: smoke or cloud? R(2+1)D network on short clips."""
import sys

import torch
import torch.nn as nn

CFG = dict(clip_len=96, stride=2, crop=112, batch=4, steps=6, width=24)
if "--fixed" in sys.argv:
    CFG["clip_len"] = 16


class Conv2Plus1D(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        super().__init__(
            nn.Conv3d(cin, cout, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False), nn.BatchNorm3d(cout), nn.ReLU(inplace=True),
            nn.Conv3d(cout, cout, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False), nn.BatchNorm3d(cout), nn.ReLU(inplace=True))


def build(w):
    return nn.Sequential(Conv2Plus1D(3, w), nn.MaxPool3d((1, 2, 2)), Conv2Plus1D(w, 2 * w), Conv2Plus1D(2 * w, 4 * w, 2),
                         Conv2Plus1D(4 * w, 8 * w, 2), nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Dropout(0.3), nn.Linear(8 * w, 2))


class CameraClips:
    """Cuts clips of clip_len frames, every stride-th frame, out of long recordings."""

    def __init__(self, clip_len, stride, crop, batch):
        self.footage = torch.randint(0, 255, (400, 3, crop + 16, crop + 16), dtype=torch.uint8)
        self.clip_len, self.stride, self.crop, self.batch = clip_len, stride, crop, batch
        self.rng = torch.Generator().manual_seed(3)

    def one(self):
        begin = int(torch.randint(0, 400 - self.clip_len * self.stride, (1,), generator=self.rng))
        frames = self.footage[begin:begin + self.clip_len * self.stride:self.stride]
        return frames[:, :, 8:8 + self.crop, 8:8 + self.crop].permute(1, 0, 2, 3)

    def next(self):
        clips = torch.stack([self.one() for _ in range(self.batch)])
        return clips.cuda().float().div_(127.5).sub_(1), torch.randint(0, 2, (self.batch,), generator=self.rng).cuda()


def train(cfg):
    clips = CameraClips(cfg["clip_len"], cfg["stride"], cfg["crop"], cfg["batch"])
    net = build(cfg["width"]).cuda().train()
    opt = torch.optim.AdamW(net.parameters(), lr=4e-4, weight_decay=0.02)
    for it in range(cfg["steps"]):
        x, y = clips.next()
        loss = nn.functional.cross_entropy(net(x), y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        print(f"[{it}] {loss.item():.4f}")


if __name__ == "__main__":
    train(CFG)
