"""Solder joint defects on circuit boards: small FPN that marks bad joints (AOI line 4)."""
import argparse
from dataclasses import dataclass

import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Preproc:
    do_resize: bool = False
    size: int = 512
    native: int = 1280

    def __call__(self, img, mask):
        if self.do_resize:
            img = F.interpolate(img[None], size=(self.size, self.size), mode="bilinear", antialias=True)[0]
            mask = F.interpolate(mask[None], size=(self.size, self.size), mode="nearest")[0]
        return (img - 0.45) / 0.22, mask


class AOIDataset(torch.utils.data.Dataset):
    def __init__(self, n, pre):
        self.n, self.pre = n, pre

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        base = torch.full((3, self.pre.native, self.pre.native), (i % 17) / 17)
        mask = torch.zeros(1, self.pre.native, self.pre.native)
        mask[:, 100:140, 40 * (i % 20):40 * (i % 20) + 30] = 1
        return self.pre(base, mask)


def cbr(i, o, s=1):
    return nn.Sequential(nn.Conv2d(i, o, 3, s, 1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class JointFPN(nn.Module):
    def __init__(self, widths=(24, 48, 96, 192), out=64):
        super().__init__()
        self.stages = nn.ModuleList()
        prev = 3
        for w in widths:
            self.stages.append(nn.Sequential(cbr(prev, w, 2), cbr(w, w)))
            prev = w
        self.lateral = nn.ModuleList(nn.Conv2d(w, out, 1) for w in widths[1:])
        self.head = nn.Sequential(cbr(out, out), nn.Conv2d(out, 1, 1))

    def forward(self, x):
        size, feats = x.shape[-2:], []
        for st in self.stages:
            x = st(x)
            feats.append(x)
        p = None
        for lat, f in zip(reversed(self.lateral), reversed(feats[1:])):
            f = lat(f)
            p = f if p is None else f + F.interpolate(p, size=f.shape[-2:], mode="nearest")
        return F.interpolate(self.head(p), size=size, mode="bilinear")


if __name__ == "__main__":
    ap = argparse.ArgumentParser()
    ap.add_argument("--bs", type=int, default=8)
    ap.add_argument("--fixed", action="store_true")
    args = ap.parse_args()
    loader = torch.utils.data.DataLoader(AOIDataset(args.bs * 4, Preproc(do_resize=args.fixed)), batch_size=args.bs, shuffle=True)
    net = JointFPN().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    for it, (img, mask) in enumerate(loader):
        img, mask = img.cuda(), mask.cuda()
        logit = net(img)
        loss = F.binary_cross_entropy_with_logits(logit, mask, pos_weight=torch.tensor(8.0, device="cuda"))
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(it, float(loss))
