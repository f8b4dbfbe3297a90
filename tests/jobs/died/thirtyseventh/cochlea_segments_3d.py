"""
Segmentation of the cochlea in micro-CT: scala tympani, scala vestibuli, scala media and bone.
Patches of 48 x 96 x 96 voxels; the training Dice of an epoch is reported at its end.
"""
import sys

import torch
import torch.nn as nn

CLASSES = 4
device = torch.device("cuda")


class Stage(nn.Sequential):
    def __init__(self, a, b, stride=1):
        super().__init__(nn.Conv3d(a, b, 3, stride, 1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01),
                         nn.Conv3d(b, b, 3, 1, 1), nn.InstanceNorm3d(b, affine=True), nn.LeakyReLU(0.01))


class CochleaNet(nn.Module):
    def __init__(self, w=8):
        super().__init__()
        self.e1, self.e2, self.e3 = Stage(1, w), Stage(w, 2 * w, 2), Stage(2 * w, 4 * w, 2)
        self.u2, self.u1 = nn.ConvTranspose3d(4 * w, 2 * w, 2, 2), nn.ConvTranspose3d(2 * w, w, 2, 2)
        self.d2, self.d1 = Stage(4 * w, 2 * w), Stage(2 * w, w)
        self.last = nn.Conv3d(w, CLASSES, 1)

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(a)
        y = self.d2(torch.cat([self.u2(self.e3(b)), b], 1))
        return self.last(self.d1(torch.cat([self.u1(y), a], 1)))


def patches(n, gen):
    for _ in range(n):
        volume = torch.rand(2, 1, 48, 96, 96, generator=gen)
        yield volume, (volume[:, 0] * CLASSES).long()


def overlap(probabilities, labels):
    """Numerator and denominator of Dice for each class."""
    hot = torch.stack([(labels == c).float() for c in range(CLASSES)], 1)
    axes = (0, 2, 3, 4)
    return 2 * (probabilities * hot).sum(axes), probabilities.sum(axes) + hot.sum(axes)


def run_epoch(model, optimizer, gen, n=64):
    model.train()
    epoch_probs, epoch_labels = [], []
    top, bottom = torch.zeros(CLASSES), torch.zeros(CLASSES)
    for volume, labels in patches(n, gen):
        volume, labels = volume.to(device), labels.to(device)
        logits = model(volume)
        loss = nn.functional.cross_entropy(logits, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        probs = logits.softmax(1)
        if "--fixed" in sys.argv:
            t, b = overlap(probs.detach(), labels)
            top, bottom = top + t.cpu(), bottom + b.cpu()
        else:
            epoch_probs.append(probs)
            epoch_labels.append(labels)
    for p, l in zip(epoch_probs, epoch_labels):
        t, b = overlap(p.detach(), l)
        top, bottom = top + t.cpu(), bottom + b.cpu()
    return loss.item(), (top / bottom.clamp_min(1)).tolist()


if __name__ == "__main__":
    torch.manual_seed(5)
    gen = torch.Generator().manual_seed(6)
    model = CochleaNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.99, nesterov=True)
    for epoch in range(2):
        loss, dice = run_epoch(model, optimizer, gen)
        print(f"[{epoch}] loss {loss:.3f} dice {[round(d, 3) for d in dice]}")
