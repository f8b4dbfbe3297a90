"""Segments 39 organs of the abdomen (and background) in CT volumes; a Tversky loss plus cross entropy."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

N_ORGANS = 40
PATCH = (80, 80, 80)


class Block(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(nn.Conv3d(cin, cout, 3, padding=1), nn.InstanceNorm3d(cout), nn.LeakyReLU(0.01, inplace=True))


class TinyUNet3D(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.e1, self.e2, self.e3 = Block(1, w), Block(w, 2 * w), Block(2 * w, 4 * w)
        self.u2, self.u1 = nn.ConvTranspose3d(4 * w, 2 * w, 2, 2), nn.ConvTranspose3d(2 * w, w, 2, 2)
        self.d2, self.d1 = Block(4 * w, 2 * w), Block(2 * w, w)
        self.out = nn.Conv3d(w, N_ORGANS, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(F.max_pool3d(a, 2))
        c = self.e3(F.max_pool3d(b, 2))
        b = self.d2(torch.cat([self.u2(c), b], 1))
        return self.out(self.d1(torch.cat([self.u1(b), a], 1)))


class TverskyCE(nn.Module):
    def __init__(self, alpha=0.3, beta=0.7, smooth=1e-5):
        super().__init__()
        self.alpha, self.beta, self.smooth = alpha, beta, smooth

    def counts(self, probs, label):
        """True positives, false positives and false negatives of each organ."""
        target = F.one_hot(label, N_ORGANS).permute(0, 4, 1, 2, 3)
        axes = (0, 2, 3, 4)
        return (probs * target).sum(axes), (probs * (1 - target)).sum(axes), ((1 - probs) * target).sum(axes)

    def forward(self, logits, label):
        tp, fp, fn = self.counts(logits.softmax(1), label)
        score = (tp + self.smooth) / (tp + self.alpha * fp + self.beta * fn + self.smooth)
        return 1 - score[1:].mean() + F.cross_entropy(logits, label)


class IndexedTverskyCE(TverskyCE):
    def counts(self, probs, label):
        own = probs.gather(1, label.unsqueeze(1)).flatten()
        zeros = torch.zeros(N_ORGANS, device=probs.device)
        tp = zeros.index_add(0, label.flatten(), own)
        voxels = zeros.index_add(0, label.flatten(), torch.ones_like(own))
        return tp, probs.sum((0, 2, 3, 4)) - tp, voxels - tp


def patches(n, seed=30):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield torch.randn(2, 1, *PATCH, generator=g), torch.randint(0, N_ORGANS, (2, *PATCH), generator=g)


if __name__ == "__main__":
    model = TinyUNet3D().to("cuda")
    criterion = IndexedTverskyCE() if "--fixed" in sys.argv else TverskyCE()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-2, momentum=0.99, nesterov=True)
    for i, (volume, label) in enumerate(patches(5)):
        optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(volume.to("cuda")), label.to("cuda"))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 12)
        optimizer.step()
        print("patch", i, "loss", loss.item())
