"""Which title does a reader of the bookmobile borrow next? Self-attention over the last 50 loans, 24 000 titles."""
import math
import sys

import torch
from torch import nn
import torch.nn.functional as F

N_TITLES, MAX_LOANS, EPS = 24_000, 50, 0.1
USE_BUILTIN = "--fixed" in sys.argv


class NextLoan(nn.Module):
    def __init__(self, d=96, layers=2, heads=4):
        super().__init__()
        self.titles = nn.Embedding(N_TITLES, d)
        self.when = nn.Embedding(MAX_LOANS, d)
        block = nn.TransformerEncoderLayer(d, heads, 4 * d, dropout=0.2, batch_first=True, norm_first=True, activation="gelu")
        self.blocks = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        nn.init.normal_(self.titles.weight, std=1 / math.sqrt(d))

    def forward(self, loans):
        mask = nn.Transformer.generate_square_subsequent_mask(loans.size(1), device=loans.device)
        x = self.titles(loans) + self.when.weight[: loans.size(1)]
        return self.blocks(x, mask=mask, is_causal=True) @ self.titles.weight.T


class SmoothedLoss(nn.Module):
    def forward(self, logits, wanted):
        logits, wanted = logits.flatten(0, 1), wanted.flatten()
        if USE_BUILTIN:
            return F.cross_entropy(logits, wanted, label_smoothing=EPS)
        target = F.one_hot(wanted, N_TITLES)
        target = target * (1 - EPS) + EPS / N_TITLES
        return -(target * F.log_softmax(logits, -1)).sum(-1).mean()


def readers(n_batches, batch=96):
    rng = torch.Generator().manual_seed(12)
    for _ in range(n_batches):
        loans = torch.randint(0, N_TITLES, (batch, MAX_LOANS + 1), generator=rng)
        yield loans[:, :-1].cuda(), loans[:, 1:].cuda()


def main():
    model, loss_fn = NextLoan().cuda(), SmoothedLoss()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, betas=(0.9, 0.98))
    for i, (history, following) in enumerate(readers(8)):
        optimizer.zero_grad()
        loss = loss_fn(model(history), following)
        loss.backward()
        optimizer.step()
        print(f"batch {i}: {loss.item():.4f}")


main()
