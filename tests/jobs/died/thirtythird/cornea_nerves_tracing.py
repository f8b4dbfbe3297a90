"""Traces nerve fibres in confocal microscopy of the cornea and reports quantiles of the calibration error over the pixels of the validation set."""
import sys

import torch
from torch import nn
from torchmetrics import CatMetric

FIXED = "--fixed" in sys.argv


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.GroupNorm(4, o), nn.GELU())


class Tracer(nn.Module):
    def __init__(self, w=16):
        super().__init__()
        self.fine, self.coarse = block(1, w), nn.Sequential(nn.MaxPool2d(2), block(w, 2 * w), block(2 * w, 2 * w))
        self.up = nn.ConvTranspose2d(2 * w, w, 2, 2)
        self.head = nn.Sequential(block(2 * w, w), nn.Conv2d(w, 1, 1))

    def forward(self, image):
        fine = self.fine(image)
        return self.head(torch.cat([fine, self.up(self.coarse(fine))], 1)).squeeze(1)


class Fibres(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        trace = torch.zeros(384, 384, dtype=torch.long)
        trace[:, (7 * i) % 384] = 1
        return trace.float().unsqueeze(0) * 0.8, trace


train = torch.utils.data.DataLoader(Fibres(32), batch_size=4)
val = torch.utils.data.DataLoader(Fibres(1440), batch_size=12)
net = Tracer().cuda()
opt = torch.optim.Adam(net.parameters(), 1e-3)
errors = CatMetric(nan_strategy="disable", compute_on_cpu=FIXED).cuda()

for epoch in range(1):
    net.train()
    for x, y in train:
        opt.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(net(x.cuda()), y.float().cuda())
        loss.backward()
        opt.step()
    net.eval()
    with torch.no_grad():
        for x, y in val:
            errors.update((net(x.cuda()).sigmoid() - y.cuda()).abs().flatten())
    sample = errors.compute().cpu()[::1000].sort().values
    print(f"epoch {epoch} loss {loss.item():.4f} median error {sample[len(sample) // 2].item():.4f} worst {sample[-1].item():.4f}")
    errors.reset()
