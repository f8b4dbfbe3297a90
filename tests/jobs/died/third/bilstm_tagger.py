"""Named entities with a BiLSTM. The log's running loss is of a second, clean forward pass (without dropout), and it is summed as a tensor, so that
each step's graph hangs on the sum. https://discuss.pytorch.org/t/cuda-out-of-memory-after-more-than-8000-iterators/27253"""
import sys

import torch
from torch import nn, optim

FIXED = "--fixed" in sys.argv
device = torch.device("cuda")


class Tagger(nn.Module):
    def __init__(self, words, tags, dim=256, hidden=384):
        super().__init__()
        self.embed = nn.Embedding(words, dim, padding_idx=0)
        self.drop = nn.Dropout(0.4)
        self.lstm = nn.LSTM(dim, hidden, num_layers=2, bidirectional=True, batch_first=True, dropout=0.3)
        self.mlp = nn.Sequential(nn.Linear(2 * hidden, hidden), nn.GELU(), nn.Linear(hidden, tags))

    def forward(self, x):
        h, _ = self.lstm(self.drop(self.embed(x)))
        return self.mlp(h)


def loss_of(model, x, y):
    return nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())


model = Tagger(40000, 19).to(device)
opt = optim.Adam(model.parameters(), lr=1e-3)
running = 0
for it in range(1, 11):
    x = torch.randint(1, 40000, (64, 128)).to(device)
    y = torch.randint(0, 19, (64, 128)).to(device)
    model.train()
    opt.zero_grad()
    loss = loss_of(model, x, y)
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    opt.step()

    model.eval()
    clean = loss_of(model, x, y)
    running += clean.item() if FIXED else clean
    if it % 5 == 0:
        print("it %d  clean loss %.4f" % (it, float(running) / it))
