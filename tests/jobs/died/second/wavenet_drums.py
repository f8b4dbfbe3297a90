"""A WaveNet of drum loops: 40 dilated layers, mu-law samples, one training crop a loop.

After https://github.com/tensorflow/tensor2tensor/issues/581 and https://brewslm.com/academy/sft-fundamentals/surviving-oom.html
"""
import sys

import torch
from torch import nn
from torch.nn import functional as F


class Layer(nn.Module):
    def __init__(self, channels, skip, dilation):
        super().__init__()
        self.pad = dilation
        self.conv = nn.Conv1d(channels, 2 * channels, 2, dilation=dilation)
        self.skip = nn.Conv1d(channels, skip, 1)
        self.res = nn.Conv1d(channels, channels, 1)

    def forward(self, x):
        a, b = self.conv(F.pad(x, (self.pad, 0))).chunk(2, 1)
        z = torch.tanh(a) * torch.sigmoid(b)
        return x + self.res(z), self.skip(z)


class WaveNet(nn.Module):
    def __init__(self, channels=128, skip=256, cycles=4, depth=10):
        super().__init__()
        self.embed = nn.Embedding(256, channels)
        self.layers = nn.ModuleList([Layer(channels, skip, 2 ** d) for _ in range(cycles) for d in range(depth)])
        self.post = nn.Sequential(nn.ReLU(), nn.Conv1d(skip, skip, 1), nn.ReLU(), nn.Conv1d(skip, 256, 1))

    def forward(self, samples):
        x, total = self.embed(samples).transpose(1, 2), 0
        for layer in self.layers:
            x, skip = layer(x)
            total = total + skip
        return self.post(total)


def crops(count, batch, length):
    for _ in range(count):
        yield torch.randint(256, (batch, length + 1))


seconds = 0.5 if "--fixed" in sys.argv else 2.0
net = WaveNet().cuda()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for i, crop in enumerate(crops(6, 4, int(seconds * 16000))):
    crop = crop.cuda()
    optimizer.zero_grad()
    loss = F.cross_entropy(net(crop[:, :-1]), crop[:, 1:])
    loss.backward()
    optimizer.step()
    print(i, loss.item())
