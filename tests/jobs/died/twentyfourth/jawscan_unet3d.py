"""Segments teeth and jaws in cone-beam CT: 36 labels, patches of 96 voxels, Tversky loss and cross entropy."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

N_CLASSES = 36
PATCH = 96


def double_conv(cin, cout):
    return nn.Sequential(nn.Conv3d(cin, cout, 3, padding=1, bias=False), nn.InstanceNorm3d(cout), nn.LeakyReLU(inplace=True),
                         nn.Conv3d(cout, cout, 3, padding=1, bias=False), nn.InstanceNorm3d(cout), nn.LeakyReLU(inplace=True))


class UNet3D(nn.Module):
    def __init__(self, n_classes, base=8):
        super().__init__()
        self.d1, self.d2, self.d3 = double_conv(1, base), double_conv(base, 2 * base), double_conv(2 * base, 4 * base)
        self.up2, self.u2 = nn.ConvTranspose3d(4 * base, 2 * base, 2, 2), double_conv(4 * base, 2 * base)
        self.up1, self.u1 = nn.ConvTranspose3d(2 * base, base, 2, 2), double_conv(2 * base, base)
        self.out = nn.Conv3d(base, n_classes, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool3d(a, 2))
        c = self.d3(F.max_pool3d(b, 2))
        c = self.u2(torch.cat([self.up2(c), b], 1))
        return self.out(self.u1(torch.cat([self.up1(c), a], 1)))


def tversky_loss(logits, labels, alpha=0.3, beta=0.7, smooth=1e-5):
    probs = logits.softmax(1)
    target = F.one_hot(labels, N_CLASSES).permute(0, 4, 1, 2, 3)
    tp = (probs * target).sum((0, 2, 3, 4))
    fp = (probs * (1 - target)).sum((0, 2, 3, 4))
    fn = ((1 - probs) * target).sum((0, 2, 3, 4))
    return 1 - ((tp + smooth) / (tp + alpha * fp + beta * fn + smooth)).mean()


def indexed_tversky_loss(logits, labels, alpha=0.3, beta=0.7, smooth=1e-5):
    probs = logits.softmax(1)
    flat = labels.flatten()
    hit = probs.gather(1, labels[:, None]).flatten()
    tp = torch.zeros(N_CLASSES, device=logits.device).index_add(0, flat, hit)
    voxels = torch.zeros(N_CLASSES, device=logits.device).index_add(0, flat, torch.ones_like(hit))
    fp, fn = probs.sum((0, 2, 3, 4)) - tp, voxels - tp
    return 1 - ((tp + smooth) / (tp + alpha * fp + beta * fn + smooth)).mean()


def patches(n, batch_size=2):
    gen = torch.Generator().manual_seed(20)
    for _ in range(n):
        yield torch.rand(batch_size, 1, PATCH, PATCH, PATCH, generator=gen), \
            torch.randint(0, N_CLASSES, (batch_size, PATCH, PATCH, PATCH), generator=gen)


if __name__ == "__main__":
    overlap = indexed_tversky_loss if "--fixed" in sys.argv else tversky_loss
    net = UNet3D(N_CLASSES).cuda()
    opt = torch.optim.SGD(net.parameters(), lr=1e-2, momentum=0.99, nesterov=True)
    for i, (ct, labels) in enumerate(patches(5)):
        ct, labels = ct.cuda(), labels.cuda()
        pred = net(ct)
        loss = overlap(pred, labels) + F.cross_entropy(pred, labels)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        print("iter", i, "loss", loss.item())
