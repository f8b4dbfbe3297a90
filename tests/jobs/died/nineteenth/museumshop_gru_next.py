"""Next article in the museum shop. GRU4Rec-ish, tied item vectors."""
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

N_ITEMS = 60_000
N_NEG = 2048
MAX_LEN = 40


class SessionEncoder(nn.Module):
    def __init__(self, dim=64, hidden=128):
        super().__init__()
        self.items = nn.Embedding(N_ITEMS, dim, padding_idx=0)
        self.rnn = nn.GRU(dim, hidden, num_layers=1, batch_first=True)
        self.to_item = nn.Linear(hidden, dim)

    def forward(self, clicks):
        out, _ = self.rnn(self.items(clicks))
        return self.to_item(out)


def full_softmax_loss(model, states, target):
    scores = states @ model.items.weight.t()
    return F.cross_entropy(scores.flatten(0, 1), target.flatten(), ignore_index=0)


def sampled_softmax_loss(model, states, target, gen):
    negatives = torch.randint(1, N_ITEMS, (N_NEG,), generator=gen).to(states.device)
    positive = (states * model.items(target)).sum(-1, keepdim=True)
    scores = torch.cat([positive, states @ model.items(negatives).t()], -1)
    nll = -F.log_softmax(scores, -1)[..., 0]
    mask = (target != 0).float()
    return (nll * mask).sum() / mask.sum()


def sessions(n, gen):
    lengths = torch.randint(5, MAX_LEN + 1, (n,), generator=gen)
    return [torch.randint(1, N_ITEMS, (int(k),), generator=gen) for k in lengths]


def main():
    gen = torch.Generator().manual_seed(2024)
    model = SessionEncoder().cuda()
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    loader = DataLoader(sessions(640, gen), batch_size=64, collate_fn=lambda b: pad_sequence(b, batch_first=True))
    sampled = "--fixed" in sys.argv
    start = time.time()
    for step, clicks in enumerate(loader):
        clicks = clicks.cuda()
        states, target = model(clicks[:, :-1]), clicks[:, 1:]
        loss = sampled_softmax_loss(model, states, target, gen) if sampled else full_softmax_loss(model, states, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(f"{step:3d} {loss.item():8.3f} {time.time() - start:6.1f}s")


if __name__ == "__main__":
    main()
