"""Removes scratches and tarnish from scans of daguerreotypes; content and style terms in the manner of Johnson et al."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Vgg(nn.Module):
    """The first blocks of VGG16. (The weights would come from torchvision.)"""

    def __init__(self, plan=((1, 48), (48, 48), "M", (48, 96), (96, 96), "M", (96, 192), (192, 192))):
        super().__init__()
        layers = []
        for entry in plan:
            layers += [nn.MaxPool2d(2)] if entry == "M" else [nn.Conv2d(*entry, 3, padding=1), nn.ReLU(inplace=True)]
        self.features = nn.Sequential(*layers)
        self.taps = {3, 8, 13}

    def forward(self, x):
        out = []
        for i, layer in enumerate(self.features):
            x = layer(x)
            if i in self.taps:
                out.append(x)
        return out


def gram(f):
    b, c, h, w = f.shape
    f = f.view(b, c, h * w)
    return f @ f.transpose(1, 2) / (c * h * w)


class RestorationLoss(nn.Module):
    def __init__(self, content=1.0, style=30.0, pixel=0.5):
        super().__init__()
        self.vgg = Vgg().eval()
        self.weights = content, style, pixel
        if FIXED:
            self.vgg.requires_grad_(False)

    def forward(self, restored, clean, damaged):
        got, want, before = self.vgg(restored), self.vgg(clean), self.vgg(damaged)
        content = sum(F.l1_loss(a, b) for a, b in zip(got, want))
        style = sum(F.mse_loss(gram(a), gram(b)) for a, b in zip(got, want))
        apart = torch.relu(0.1 - F.l1_loss(got[-1], before[-1]))
        c, s, p = self.weights
        return c * content + s * style + p * F.l1_loss(restored, clean) + 0.01 * apart


class Restorer(nn.Module):
    def __init__(self, w=24):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(1, w, 3, 1, 1), nn.ReLU(True), nn.Conv2d(w, 2 * w, 4, 2, 1), nn.ReLU(True))
        self.mid = nn.Sequential(*[nn.Sequential(nn.Conv2d(2 * w, 2 * w, 3, 1, 1), nn.ReLU(True)) for _ in range(4)])
        self.dec = nn.Sequential(nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.ReLU(True), nn.Conv2d(w, 1, 3, 1, 1))

    def forward(self, x):
        return x + self.dec(self.mid(self.enc(x)))


def plates(batch, size=256):
    clean = torch.rand(batch, 1, size, size)
    scratches = (torch.rand(batch, 1, size, size) > 0.98).float()
    return clean, (clean + scratches).clamp(max=1)


def main():
    torch.manual_seed(1850)
    net, criterion = Restorer().cuda(), RestorationLoss().cuda()
    optimizer = torch.optim.Adam(net.parameters(), lr=1e-4)
    for step in range(8):
        clean, damaged = (t.cuda() for t in plates(12))
        loss = criterion(net(damaged), clean, damaged)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 2 == 0:
            print(f"[{step:3d}] {loss.item():.4f}")


main()
