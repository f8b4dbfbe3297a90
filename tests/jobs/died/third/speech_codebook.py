"""VQ-VAE for speech units. The codes are looked up with a one-hot matrix times the codebook, as in the first implementations one finds."""
import sys

import torch
from torch import nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
CODES, DIM = 16384, 64


class Quantizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.codebook = nn.Parameter(torch.randn(CODES, DIM) / CODES)

    def forward(self, z):
        flat = z.transpose(1, 2).reshape(-1, DIM)
        with torch.no_grad():
            nearest = torch.cat([torch.cdist(part, self.codebook).argmin(1) for part in flat.split(1024)])
        if FIXED:
            q = F.embedding(nearest, self.codebook)
        else:
            onehot = F.one_hot(nearest, CODES).float()
            q = onehot @ self.codebook
        commit = F.mse_loss(q.detach(), flat) * 0.25 + F.mse_loss(q, flat.detach())
        q = flat + (q - flat).detach()
        return q.view(z.shape[0], -1, DIM).transpose(1, 2), commit


class Units(nn.Module):
    def __init__(self, w=256):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv1d(80, w, 3, 1, 1), nn.ReLU(), nn.Conv1d(w, w, 4, 2, 1), nn.ReLU(), nn.Conv1d(w, DIM, 3, 1, 1))
        self.vq = Quantizer()
        self.dec = nn.Sequential(nn.Conv1d(DIM, w, 3, 1, 1), nn.ReLU(), nn.ConvTranspose1d(w, w, 4, 2, 1), nn.ReLU(), nn.Conv1d(w, 80, 3, 1, 1))

    def forward(self, mel):
        q, commit = self.vq(self.enc(mel))
        return self.dec(q), commit


model = Units().cuda()
opt = torch.optim.Adam(model.parameters(), 2e-4)
for step in range(8):
    mel = torch.randn(32, 80, 512).cuda()
    out, commit = model(mel)
    loss = F.l1_loss(out, mel) + commit
    opt.zero_grad(); loss.backward(); opt.step()
    if step % 4 == 0:
        print(step, loss.item(), commit.item())
