"""Speech enhancement for hands-free calls in the car: a small Conv-TasNet, noisy cabin recordings in, clean speech out."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
RATE = 16_000


class CabinRecordings(Dataset):
    """Pairs of noisy and clean speech. The drives were cut into utterances of twelve seconds."""

    def __init__(self, count=40, seconds=12, segment=None, seed=3):
        self.count, self.length, self.segment = count, seconds * RATE, segment
        self.generator = torch.Generator().manual_seed(seed)
        self.road = 0.3 * torch.randn(self.length, generator=self.generator)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        clean = torch.sin(torch.arange(self.length) * (0.01 + 0.001 * index))
        noisy = clean + self.road
        if self.segment is not None:
            size = int(self.segment * RATE)
            start = int(torch.randint(0, self.length - size + 1, (1,), generator=self.generator))
            clean, noisy = clean[start:start + size], noisy[start:start + size]
        return noisy, clean


class Block(nn.Module):
    def __init__(self, channels, hidden, dilation):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv1d(channels, hidden, 1), nn.PReLU(), nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, hidden, 3, padding=dilation, dilation=dilation, groups=hidden), nn.PReLU(), nn.GroupNorm(1, hidden),
            nn.Conv1d(hidden, channels, 1))

    def forward(self, x):
        return x + self.net(x)


class TasNet(nn.Module):
    def __init__(self, basis=128, channels=64, hidden=128, repeats=2, depth=6):
        super().__init__()
        self.encoder = nn.Conv1d(1, basis, 16, stride=8, bias=False)
        self.bottleneck = nn.Conv1d(basis, channels, 1)
        self.tcn = nn.Sequential(*[Block(channels, hidden, 2 ** d) for _ in range(repeats) for d in range(depth)])
        self.mask = nn.Conv1d(channels, basis, 1)
        self.decoder = nn.ConvTranspose1d(basis, 1, 16, stride=8, bias=False)

    def forward(self, wave):
        codes = torch.relu(self.encoder(wave[:, None]))
        mask = torch.sigmoid(self.mask(self.tcn(self.bottleneck(codes))))
        return self.decoder(codes * mask)[:, 0]


def si_sdr(estimate, target, eps=1e-8):
    scale = (estimate * target).sum(-1, keepdim=True) / (target.pow(2).sum(-1, keepdim=True) + eps)
    projection = scale * target
    return 10 * torch.log10(projection.pow(2).sum(-1) / ((estimate - projection).pow(2).sum(-1) + eps) + eps)


if __name__ == "__main__":
    dataset = CabinRecordings(segment=3.0) if FIXED else CabinRecordings()
    loader = DataLoader(dataset, batch_size=4, shuffle=True, drop_last=True, generator=torch.Generator().manual_seed(0))
    model = TasNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (noisy, clean) in enumerate(loader):
        noisy, clean = noisy.cuda(), clean.cuda()
        estimate = model(noisy)
        loss = -si_sdr(estimate, clean[:, :estimate.shape[-1]]).mean()
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print(f"step {step} SI-SDR {-loss.item():.2f} dB")
