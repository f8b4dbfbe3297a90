"""Predicts claims of an insurer from tables of many categories with a feature-token transformer."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

OPTIMIZER = "sgd" if "--fixed" in sys.argv else "adam"
CARDINALITIES = [400000, 250000, 120000, 60000, 4000, 800, 60, 12, 7, 2]
NUMBERS, TOKEN = 20, 256


class Tokens(nn.Module):
    def __init__(self):
        super().__init__()
        self.categories = nn.ModuleList(nn.Embedding(n, TOKEN) for n in CARDINALITIES)
        self.weight, self.bias = nn.Parameter(torch.zeros(NUMBERS, TOKEN)), nn.Parameter(torch.zeros(NUMBERS, TOKEN))
        self.cls = nn.Parameter(torch.zeros(1, 1, TOKEN))

    def forward(self, categories, numbers):
        c = torch.stack([table(categories[:, k]) for k, table in enumerate(self.categories)], 1)
        n = numbers[..., None] * self.weight + self.bias
        return torch.cat([self.cls.expand(len(c), -1, -1), c, n], 1)


class FTTransformer(nn.Module):
    def __init__(self, layers=3, heads=8):
        super().__init__()
        self.tokens = Tokens()
        layer = nn.TransformerEncoderLayer(TOKEN, heads, 2 * TOKEN, 0.1, "gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(TOKEN), nn.ReLU(), nn.Linear(TOKEN, 1))

    def forward(self, categories, numbers):
        return self.head(self.encoder(self.tokens(categories, numbers))[:, 0]).squeeze(-1)


def optimizer_of(name, parameters):
    if name == "sgd":
        return torch.optim.SGD(parameters, lr=0.1)
    return torch.optim.Adam(parameters, lr=1e-4, foreach=False)


class Claims:
    """Rows of the table, drawn on the host."""

    def __init__(self, batch, batches):
        self.batch, self.batches = batch, batches

    def __iter__(self):
        for _ in range(self.batches):
            categories = torch.stack([torch.randint(n, (self.batch,)) for n in CARDINALITIES], 1)
            yield categories, torch.rand(self.batch, NUMBERS), (torch.rand(self.batch) < 0.1).float()


def main():
    with torch.device("cuda"):
        model = FTTransformer()
    optimizer = optimizer_of(OPTIMIZER, model.parameters())
    model.train()
    for epoch in range(2):
        for categories, numbers, claim in Claims(256, 5):
            loss = F.binary_cross_entropy_with_logits(model(categories.cuda(), numbers.cuda()), claim.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())


main()
