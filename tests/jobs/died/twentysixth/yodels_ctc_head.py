#!/usr/bin/env python
"""CTC head for the syllables of yodels over a frozen convolutional encoder.
The encoder is slow, so that its features are computed once for each recording and looked up in later epochs."""
import sys

import torch
import torch.nn as nn

SYLLABLES = 40


class Encoder(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        convs, c = [], 1
        for kernel, stride in ((10, 5), (8, 4), (4, 2), (4, 2)):
            convs += [nn.Conv1d(c, width, kernel, stride), nn.GELU()]
            c = width
        self.convs = nn.Sequential(*convs)

    def forward(self, wave):
        return self.convs(wave[:, None]).transpose(1, 2)


class FeatureStore:
    def __init__(self, encoder):
        self.encoder, self.known = encoder, {}

    @torch.no_grad()
    def get(self, key, wave):
        if key not in self.known:
            features = self.encoder(wave.cuda())
            self.known[key] = features.cpu() if "--fixed" in sys.argv else features
        return self.known[key].cuda()


class Head(nn.Module):
    def __init__(self, width=512):
        super().__init__()
        self.rnn = nn.GRU(width, 192, bidirectional=True, batch_first=True)
        self.out = nn.Linear(384, SYLLABLES)

    def forward(self, x):
        return self.out(self.rnn(x)[0]).log_softmax(-1)


class Archive:
    """Batches of four recordings of eight seconds at 16 kHz; the same in every epoch."""

    def __init__(self, batches):
        self.batches = batches

    def __iter__(self):
        for n in range(self.batches):
            g = torch.Generator().manual_seed(n)
            yield n, torch.randn(4, 128000, generator=g), torch.randint(1, SYLLABLES, (4, 24), generator=g)


def main():
    encoder = Encoder().cuda().eval().requires_grad_(False)
    store, head = FeatureStore(encoder), Head().cuda()
    opt = torch.optim.Adam(head.parameters(), 1e-3)
    ctc = nn.CTCLoss(zero_infinity=True)
    for epoch in range(2):
        for key, wave, syllables in Archive(90):
            logp = head(store.get(key, wave)).transpose(0, 1)
            frames = torch.full((4,), logp.shape[0])
            loss = ctc(logp, syllables.cuda(), frames, torch.full((4,), 24))
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, "loss", loss.item())


main()
