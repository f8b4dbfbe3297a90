"""A detector of loon calls for a recorder on a buoy: a small CNN learns the features of Data2VecAudio (and five labels)."""
import sys
from contextlib import nullcontext

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import Data2VecAudioConfig, Data2VecAudioModel

FIXED = "--fixed" in sys.argv
RATE, SECONDS = 16000, 4


class BuoyNet(nn.Module):
    def __init__(self, width=96, out=512):
        super().__init__()
        self.bank = nn.Conv1d(1, 64, 400, 320)
        self.body = nn.Sequential(*[nn.Sequential(nn.Conv1d(64 if k == 0 else width, width, 5, padding=2), nn.BatchNorm1d(width), nn.ReLU())
                                    for k in range(5)])
        self.features = nn.Conv1d(width, out, 1)
        self.call = nn.Linear(width, 5)

    def forward(self, wave):
        x = self.body(torch.log1p(self.bank(wave[:, None]).abs()))
        return self.features(x).transpose(1, 2), self.call(x.mean(-1))


class Listener:
    """Wraps the large model; gives the mean of its upper layers."""

    def __init__(self, layers=8, hidden=512):
        config = Data2VecAudioConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=8, intermediate_size=4 * hidden,
                                     conv_dim=(256,) * 7, num_conv_pos_embeddings=3)
        self.net = Data2VecAudioModel(config).cuda().eval()
        self.top = layers // 2

    def __call__(self, wave):
        with torch.no_grad() if FIXED else nullcontext():
            states = self.net(wave, output_hidden_states=True).hidden_states
            return torch.stack(states[-self.top:]).mean(0)


def recordings(count, batch, seed=0):
    gen = torch.Generator().manual_seed(seed)
    for _ in range(count):
        yield 0.1 * torch.randn(batch, RATE * SECONDS, generator=gen), torch.randint(5, (batch,), generator=gen)


listener, buoy = Listener(), BuoyNet().cuda()
optimizer = torch.optim.AdamW(buoy.parameters(), lr=1e-3)
for step, (wave, label) in enumerate(recordings(10, 8)):
    wave, label = wave.cuda(), label.cuda()
    wanted = listener(wave)
    features, call = buoy(wave)
    n = min(features.shape[1], wanted.shape[1])
    loss = F.smooth_l1_loss(features[:, :n], wanted[:, :n]) + 0.3 * F.cross_entropy(call, label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 3 == 0:
        print(step, loss.item())
