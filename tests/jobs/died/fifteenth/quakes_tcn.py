# picks P and S arrivals in seismograms; dilated convolutions as in WaveNet, one probability per sample
import sys
import torch, torch.nn as nn, torch.nn.functional as F

fixed = "--fixed" in sys.argv
HZ = 100
SECONDS = 60 if fixed else 600     # length of what the net sees at a time
CH = 40


class Gated(nn.Module):
    def __init__(self, ch, dilation):
        super().__init__()
        self.conv = nn.Conv1d(ch, 2 * ch, 3, padding=dilation, dilation=dilation)
        self.mix = nn.Conv1d(ch, ch, 1)

    def forward(self, x):
        a, b = self.conv(x).chunk(2, 1)
        return x + self.mix(torch.tanh(a) * torch.sigmoid(b))


class Picker(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Conv1d(3, CH, 7, padding=3)
        self.blocks = nn.ModuleList(Gated(CH, 2 ** i) for i in range(9))
        self.out = nn.Conv1d(CH, 3, 1)

    def forward(self, x):
        x = self.inp(x)
        for b in self.blocks:
            x = b(x)
        return self.out(F.relu(x))


def recordings(n, stations=6):
    """ten minutes of three components at `stations` stations, with noise / P / S labels"""
    g = torch.Generator().manual_seed(3)
    for _ in range(n):
        wave = torch.randn(stations, 3, 600 * HZ, generator=g)
        label = torch.zeros(stations, 600 * HZ, dtype=torch.long)
        onset = int(torch.randint(1000, 50000, (1,), generator=g))
        label[:, onset:onset + 50] = 1
        label[:, onset + 800:onset + 900] = 2
        yield wave, label


net = Picker().cuda()
opt = torch.optim.Adam(net.parameters(), lr=1e-3)
weight = torch.tensor([1.0, 30.0, 30.0]).cuda()
n = 0
for wave, label in recordings(4):
    for part, truth in zip(wave.split(SECONDS * HZ, -1), label.split(SECONDS * HZ, -1)):
        part, truth = part.cuda(), truth.cuda()
        part = (part - part.mean(-1, keepdim=True)) / (part.std(-1, keepdim=True) + 1e-6)
        loss = F.cross_entropy(net(part), truth, weight=weight)
        opt.zero_grad()
        loss.backward()
        opt.step()
        n += 1
    print(n, float(loss))
