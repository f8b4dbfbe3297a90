"""End-to-end neural diarisation (EEND) of meetings with two speakers: a BLSTM and the permutation-free loss."""
import itertools
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv
DEVICE = torch.device("cuda")
LONGEST = 3000                       # frames of a tenth of a second


class Meetings(Dataset):
    """Log-mel features, stacked to ten frames per second, and who speaks when."""

    def __init__(self, count=48):
        g = torch.Generator().manual_seed(5)
        self.frames = torch.randint(900, LONGEST, (count,), generator=g).tolist()
        self.frames[37] = 38_400     # the council met all morning

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, k):
        g = torch.Generator().manual_seed(k)
        n = self.frames[k]
        return torch.randn(n, 80, generator=g), (torch.rand(n, 2, generator=g) > 0.6).float()


def collate(items):
    feats, active = zip(*items)
    if FIXED:
        feats, active = [f[:LONGEST] for f in feats], [a[:LONGEST] for a in active]
    lengths = torch.tensor([len(f) for f in feats])
    return pad_sequence(feats, batch_first=True), pad_sequence(active, batch_first=True), lengths


class EEND(nn.Module):
    def __init__(self, hidden=192, speakers=2):
        super().__init__()
        self.input = nn.Linear(80, hidden)
        self.blstm = nn.LSTM(hidden, hidden, num_layers=3, bidirectional=True, batch_first=True, dropout=0.1)
        self.output = nn.Linear(2 * hidden, speakers)

    def forward(self, x):
        return self.output(self.blstm(self.input(x))[0])


def pit_loss(scores, active, valid):
    bce = nn.functional.binary_cross_entropy_with_logits
    totals = []
    for order in itertools.permutations(range(2)):
        each = bce(scores, active[..., list(order)], reduction="none").mean(-1)
        totals.append((each * valid).sum(1) / valid.sum(1))
    return torch.stack(totals).min(0).values.mean()


def train():
    model = EEND().to(DEVICE)
    adam = torch.optim.Adam(model.parameters(), lr=1e-3)
    for i, (feats, active, lengths) in enumerate(DataLoader(Meetings(), batch_size=4, collate_fn=collate)):
        valid = (torch.arange(feats.shape[1])[None] < lengths[:, None]).float().to(DEVICE)
        loss = pit_loss(model(feats.to(DEVICE)), active.to(DEVICE), valid)
        adam.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        adam.step()
        print("batch", i, "frames", int(lengths.max()), "loss", round(loss.item(), 4))


train()
