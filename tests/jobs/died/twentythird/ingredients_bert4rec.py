"""BERT4Rec on baskets of an online grocer: which ingredient was hidden? 70 000 articles, trained with the full softmax."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
ARTICLES = 70_000
PAD, MASK = 0, ARTICLES + 1


class BasketBert(nn.Module):
    def __init__(self, dim=128, heads=4, layers=3, length=48):
        super().__init__()
        self.item = nn.Embedding(ARTICLES + 2, dim, padding_idx=PAD)
        self.place = nn.Embedding(length, dim)
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.bias = nn.Parameter(torch.zeros(ARTICLES + 2))

    def encode(self, items):
        positions = torch.arange(items.shape[1], device=items.device)
        return self.encoder(self.item(items) + self.place(positions))

    def score(self, hidden):
        return F.linear(hidden, self.item.weight, self.bias)


def hide(baskets, share=0.15):
    """Hides some articles; returns the input, and for each hidden article its place and its number."""
    chosen = torch.rand(baskets.shape) < share
    rows, columns = chosen.nonzero(as_tuple=True)
    return baskets.masked_fill(chosen, MASK), rows, columns, baskets[rows, columns]


def objective(model, baskets):
    inputs, rows, columns, truth = hide(baskets)
    inputs, rows, columns, truth = inputs.cuda(), rows.cuda(), columns.cuda(), truth.cuda()
    hidden = model.encode(inputs)
    if FIXED:
        return F.cross_entropy(model.score(hidden[rows, columns]), truth)
    labels = torch.full_like(inputs, -100)
    labels[rows, columns] = truth
    return F.cross_entropy(model.score(hidden).flatten(0, 1), labels.flatten(), ignore_index=-100)


def fit(steps=8, batch=64):
    torch.manual_seed(2)
    model = BasketBert().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, weight_decay=1e-6)
    for step in range(steps):
        loss = objective(model, torch.randint(1, ARTICLES + 1, (batch, 48)))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        print("step", step, loss.item())


fit()
