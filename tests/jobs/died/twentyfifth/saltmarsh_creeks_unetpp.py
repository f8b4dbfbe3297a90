"""UNet++ that traces tidal creeks in drone orthophotos: trained on crops, validated on two scenes of the marsh."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
FILTERS = (24, 48, 96, 192)


def double_conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.1, inplace=True),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.LeakyReLU(0.1, inplace=True))


class UNetPP(nn.Module):
    def __init__(self, bands=5):
        super().__init__()
        self.nodes = nn.ModuleDict()
        depth = len(FILTERS)
        for i in range(depth):
            self.nodes[f"{i}_0"] = double_conv(bands if i == 0 else FILTERS[i - 1], FILTERS[i])
            for j in range(1, depth - i):
                self.nodes[f"{i}_{j}"] = double_conv(FILTERS[i] * j + FILTERS[i + 1], FILTERS[i])
        self.out = nn.Conv2d(FILTERS[0], 1, 1)

    def forward(self, x):
        grid, depth = {}, len(FILTERS)
        for i in range(depth):
            grid[i, 0] = self.nodes[f"{i}_0"](x if i == 0 else F.max_pool2d(grid[i - 1, 0], 2))
        for j in range(1, depth):
            for i in range(depth - j):
                up = F.interpolate(grid[i + 1, j - 1], scale_factor=2, mode="bilinear", align_corners=False)
                grid[i, j] = self.nodes[f"{i}_{j}"](torch.cat([grid[i, k] for k in range(j)] + [up], 1))
        return self.out(grid[0, depth - 1])


class Marsh:
    def __init__(self):
        self.rng = torch.Generator().manual_seed(88)
        self.scenes = [torch.rand(5, 2048, 2048, generator=self.rng) for _ in range(2)]
        self.creeks = [(s[0] > 0.9).float() for s in self.scenes]

    def crops(self, n=8, side=128):
        xs, ys = [], []
        for _ in range(n):
            which, r, c = (int(torch.randint(0, m, (1,), generator=self.rng)) for m in (2, 2048 - side, 2048 - side))
            xs.append(self.scenes[which][:, r:r + side, c:c + side])
            ys.append(self.creeks[which][None, r:r + side, c:c + side])
        return torch.stack(xs), torch.stack(ys)


def predict_scene(model, scene):
    if not FIXED:
        return model(scene[None].cuda()).sigmoid()[0, 0].cpu()
    whole = torch.empty(scene.shape[1:])
    for r in range(0, scene.size(1), 512):
        for c in range(0, scene.size(2), 512):
            whole[r:r + 512, c:c + 512] = model(scene[None, :, r:r + 512, c:c + 512].cuda()).sigmoid()[0, 0].cpu()
    return whole


marsh = Marsh()
model = UNetPP().cuda()
opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    model.train()
    for _ in range(5):
        x, y = marsh.crops()
        loss = F.binary_cross_entropy_with_logits(model(x.cuda()), y.cuda())
        opt.zero_grad(); loss.backward(); opt.step()
    model.eval()
    with torch.no_grad():
        ious = []
        for scene, creek in zip(marsh.scenes, marsh.creeks):
            hit = predict_scene(model, scene) > 0.5
            ious.append(((hit & (creek > 0)).sum() / (hit | (creek > 0)).sum().clamp(min=1)).item())
    print("epoch", epoch, "loss", loss.item(), "iou", ious)
