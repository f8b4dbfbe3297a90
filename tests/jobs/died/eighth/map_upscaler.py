"""A service that sharpens scanned maps with an ESRGAN-like network; customers send sheets of every size."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

TILE = 192 if "--fixed" in sys.argv else None


class Dense(nn.Module):
    def __init__(self, width=32, growth=16):
        super().__init__()
        self.convs = nn.ModuleList(nn.Conv2d(width + n * growth, growth if n < 4 else width, 3, padding=1) for n in range(5))

    def forward(self, x):
        seen = [x]
        for conv in self.convs[:-1]:
            seen.append(F.leaky_relu(conv(torch.cat(seen, 1)), 0.2))
        return x + 0.2 * self.convs[-1](torch.cat(seen, 1))


class Upscaler(nn.Module):
    def __init__(self, width=32, blocks=6):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.body = nn.Sequential(*(Dense(width) for _ in range(blocks)))
        self.up1, self.up2 = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)
        self.last = nn.Conv2d(width, 3, 3, padding=1)

    def forward(self, x):
        x = self.first(x)
        x = x + self.body(x)
        for up in (self.up1, self.up2):
            x = F.leaky_relu(up(F.interpolate(x, scale_factor=2.0)), 0.2)
        return self.last(x).clamp(0, 1)


class Service:
    def __init__(self):
        self.net = Upscaler().half().to("cuda").eval()

    @torch.inference_mode()
    def sharpen(self, sheet):
        if TILE is None:
            return self.net(sheet.unsqueeze(0).to("cuda")).squeeze(0).cpu()
        rows = []
        for strip in sheet.split(TILE, 1):
            rows.append(torch.cat([self.net(t.unsqueeze(0).to("cuda")).squeeze(0).cpu() for t in strip.split(TILE, 2)], 2))
        return torch.cat(rows, 1)


def requests():
    for height, width in ((240, 320), (360, 400), (300, 300), (1100, 900), (320, 240)):
        yield torch.zeros(3, height, width, dtype=torch.float16)


if __name__ == "__main__":
    service = Service()
    for number, sheet in enumerate(requests()):
        print("request", number, tuple(sheet.shape), "->", tuple(service.sharpen(sheet).shape))
