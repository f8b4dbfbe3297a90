"""Basecaller: raw nanopore current -> bases, convolutions + bidirectional LSTMs + CTC. Reads come in batches of similar place in the run."""
import sys

import torch
import torch.nn as nn

CHUNK = 6000
ALPHABET = "NACGT"
rng = torch.Generator().manual_seed(2026)


def read_lengths():
    lengths = torch.randint(2500, 6000, (14, 16), generator=rng)
    lengths[9, 3] = 88000          # a long fragment
    return lengths


def make_batch(lengths):
    signals = []
    for n in lengths.tolist():
        squiggle = torch.randn(n, generator=rng)
        if "--fixed" in sys.argv:
            squiggle = squiggle[:CHUNK]
        signals.append(squiggle)
    padded = nn.utils.rnn.pad_sequence(signals, batch_first=True)
    targets = torch.randint(1, 5, (len(signals), 180), generator=rng)
    return padded.unsqueeze(1), torch.tensor([len(s) for s in signals]), targets


class Basecaller(nn.Module):
    STRIDE = 5

    def __init__(self, hidden=192):
        super().__init__()
        self.convs = nn.Sequential(
            nn.Conv1d(1, 16, 5, padding=2), nn.SiLU(),
            nn.Conv1d(16, 64, 5, padding=2), nn.SiLU(),
            nn.Conv1d(64, hidden, 19, stride=self.STRIDE, padding=9), nn.SiLU())
        self.rnn = nn.LSTM(hidden, hidden // 2, num_layers=3, bidirectional=True)
        self.head = nn.Linear(hidden, len(ALPHABET))

    def forward(self, current):
        x = self.convs(current).permute(2, 0, 1)
        x, _ = self.rnn(x)
        return self.head(x).log_softmax(-1)


net = Basecaller().cuda()
opt = torch.optim.AdamW(net.parameters(), lr=2e-3)
ctc = nn.CTCLoss(blank=0, zero_infinity=True)
for number, lengths in enumerate(read_lengths()):
    current, samples, bases = make_batch(lengths)
    scores = net(current.cuda())
    frames = torch.clamp(samples // Basecaller.STRIDE, max=scores.shape[0])
    loss = ctc(scores, bases.cuda(), frames, torch.full((len(bases),), bases.shape[1]))
    opt.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(net.parameters(), 2.0)
    opt.step()
    print("batch", number, "longest", int(samples.max()), "loss", round(loss.item(), 3))
