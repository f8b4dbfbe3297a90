"""Segments supermarket shelves into product groups and gaps to compare them with the planogram. Focal loss against the many small groups."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

GROUPS = 56


class FocalLoss(nn.Module):
    def __init__(self, gamma=2.0, smoothing=0.0):
        super().__init__()
        self.gamma = gamma

    def forward(self, logits, target):
        if "--fixed" in sys.argv:
            logp = F.log_softmax(logits, 1).gather(1, target.unsqueeze(1)).squeeze(1)
            return -((1 - logp.exp()) ** self.gamma * logp).mean()
        p = F.softmax(logits, dim=1)
        y = F.one_hot(target, GROUPS).permute(0, 3, 1, 2)
        loss = -y * (1 - p) ** self.gamma * torch.log(p + 1e-8)
        return loss.sum(1).mean()


class ShelfFPN(nn.Module):
    def __init__(self, w=32):
        super().__init__()
        stage = lambda a, b: nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.BatchNorm2d(b), nn.ReLU(), nn.Conv2d(b, b, 3, 1, 1), nn.ReLU())
        self.s = nn.ModuleList([stage(3, w), stage(w, 2 * w), stage(2 * w, 4 * w), stage(4 * w, 8 * w)])
        self.lat = nn.ModuleList(nn.Conv2d(c, 64, 1) for c in (2 * w, 4 * w, 8 * w))
        self.out = nn.Conv2d(64, GROUPS, 3, padding=1)

    def forward(self, x):
        feats = []
        for s in self.s:
            x = s(x)
            feats.append(x)
        p = self.lat[2](feats[3])
        p = self.lat[1](feats[2]) + F.interpolate(p, scale_factor=2)
        p = self.lat[0](feats[1]) + F.interpolate(p, scale_factor=2)
        return F.interpolate(self.out(F.relu(p)), scale_factor=4, mode="bilinear")


def shelf_batches(n, batch=6, side=384):
    g = torch.Generator().manual_seed(4)
    for _ in range(n):
        yield torch.rand(batch, 3, side, side, generator=g), torch.randint(0, GROUPS, (batch, side, side), generator=g)


if __name__ == "__main__":
    net, criterion = ShelfFPN().cuda(), FocalLoss()
    opt = torch.optim.AdamW(net.parameters(), lr=6e-4)
    for step, (image, groups) in enumerate(shelf_batches(6)):
        loss = criterion(net(image.cuda()), groups.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, float(loss))
