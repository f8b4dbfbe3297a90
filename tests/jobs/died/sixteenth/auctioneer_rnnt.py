"""RNN transducer for the speech of auctioneers; the loss is written in PyTorch, along the antidiagonals of the lattice."""
import sys

import torch
import torch.nn as nn
from torch.utils.checkpoint import checkpoint

FIXED = "--fixed" in sys.argv
PIECES, BLANK = 2000, 0


class Transducer(nn.Module):
    def __init__(self, mels=64, width=256):
        super().__init__()
        self.encoder = nn.LSTM(mels * 4, width, 2, batch_first=True)
        self.embed = nn.Embedding(PIECES, width)
        self.predictor = nn.GRU(width, width, batch_first=True)
        self.joint_enc, self.joint_pred, self.joint_out = nn.Linear(width, width), nn.Linear(width, width), nn.Linear(width, PIECES)

    def encode(self, mel):
        b, t, f = mel.shape
        return self.encoder(mel.view(b, t // 4, 4 * f))[0]

    def predict(self, labels):
        start = torch.full_like(labels[:, :1], BLANK)
        return self.predictor(self.embed(torch.cat([start, labels], 1)))[0]

    def joint(self, enc, pred):
        h = torch.tanh(self.joint_enc(enc).unsqueeze(2) + self.joint_pred(pred).unsqueeze(1))
        return self.joint_out(h)


def transducer_loss(logits, labels):
    log_p = logits.log_softmax(-1)
    blank = log_p[..., BLANK]
    emit = log_p[:, :, :-1].gather(-1, labels[:, None, :, None].expand(-1, log_p.size(1), -1, 1)).squeeze(-1)
    b, t, u = blank.shape
    never = blank.new_full((b, 1), -1e30)
    alpha, first = blank.new_zeros(b, 1), 0  # the cells of one antidiagonal, u from first
    for n in range(1, t + u - 1):
        low, high = max(0, n - t + 1), min(n, u - 1)
        us = torch.arange(low, high + 1)
        stay = torch.cat([alpha, never], 1)[:, low - first:high + 1 - first] + blank[:, (n - us - 1).clamp(min=0), us]
        move = torch.cat([never, alpha], 1)[:, low - first:high + 1 - first] + emit[:, n - us, (us - 1).clamp(min=0)]
        alpha, first = torch.logaddexp(stay, move), low
    return -(alpha[:, -1] + blank[:, -1, -1]).mean()


def batch_loss(model, mel, labels):
    enc, pred = model.encode(mel), model.predict(labels)
    if not FIXED:
        return transducer_loss(model.joint(enc, pred), labels)

    def one(e, p, y):
        return transducer_loss(model.joint(e, p), y)
    parts = zip(enc.split(1), pred.split(1), labels.split(1))
    return sum(checkpoint(one, *part, use_reentrant=False) for part in parts) / len(mel)


model = Transducer().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
g = torch.Generator().manual_seed(44)
for step in range(3):
    mel, labels = torch.randn(8, 480, 64, generator=g).cuda(), torch.randint(1, PIECES, (8, 32), generator=g).cuda()
    loss = batch_loss(model, mel, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
