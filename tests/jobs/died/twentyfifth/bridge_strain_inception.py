"""InceptionTime on the strain gauges of a cable-stayed bridge: does a window hold a lorry of more than 40 tonnes?"""
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, Dataset, RandomSampler, TensorDataset

FIXED = "--fixed" in sys.argv
GAUGES, WINDOW, HOP = 12, 1024, 8
accelerator = Accelerator()


def record(samples=500_000):
    gen = torch.Generator().manual_seed(40)
    return torch.randn(GAUGES, samples, generator=gen), (torch.rand(samples, generator=gen) > 0.9998)


class Windows(Dataset):
    def __init__(self, strain, heavy):
        self.strain, self.heavy = strain, heavy

    def __len__(self):
        return (self.strain.size(1) - WINDOW) // HOP + 1

    def __getitem__(self, i):
        part = slice(i * HOP, i * HOP + WINDOW)
        return self.strain[:, part], self.heavy[part].any().long()


def make_dataset():
    strain, heavy = record()
    strain = (strain - strain.mean(1, keepdim=True)) / strain.std(1, keepdim=True)
    if FIXED:
        return Windows(strain, heavy)
    x = strain.to(accelerator.device).unfold(1, WINDOW, HOP).transpose(0, 1).contiguous()
    y = heavy.unfold(0, WINDOW, HOP).any(-1).long().to(accelerator.device)
    return TensorDataset(x, y)


class Inception(nn.Module):
    def __init__(self, cin, nf=32):
        super().__init__()
        self.squeeze = nn.Conv1d(cin, nf, 1, bias=False)
        self.branches = nn.ModuleList(nn.Conv1d(nf, nf, k, padding=k // 2, bias=False) for k in (9, 19, 39))
        self.pool = nn.Sequential(nn.MaxPool1d(3, 1, 1), nn.Conv1d(cin, nf, 1, bias=False))
        self.bn = nn.BatchNorm1d(4 * nf)

    def forward(self, x):
        z = self.squeeze(x)
        return torch.relu(self.bn(torch.cat([b(z) for b in self.branches] + [self.pool(x)], 1)))


class InceptionTime(nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(Inception(GAUGES), *[Inception(128) for _ in range(4)])
        self.fc = nn.Linear(128, 2)

    def forward(self, x):
        return self.fc(self.blocks(x).mean(-1))


dataset = make_dataset()
loader = DataLoader(dataset, batch_size=64, sampler=RandomSampler(dataset, num_samples=64 * 15))
model = InceptionTime()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
for step, (x, y) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    accelerator.backward(loss)
    optimizer.step()
    accelerator.print(step, loss.item())
