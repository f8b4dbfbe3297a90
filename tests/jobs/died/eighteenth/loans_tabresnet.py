"""Probability of default of small-business loans. ResNet for tables (Gorishniy et al.), nightly retraining."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

N_NUM, CARDINALITIES = 34, [12, 50, 7, 400, 31]
fixed = "--fixed" in sys.argv


class TabResNet(nn.Module):
    def __init__(self, d=384, hidden=768, blocks=4, dropout=0.15):
        super().__init__()
        self.embeddings = nn.ModuleList(nn.Embedding(c, 16) for c in CARDINALITIES)
        self.inp = nn.Linear(N_NUM + 16 * len(CARDINALITIES), d)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(d), nn.Linear(d, hidden), nn.ReLU(), nn.Dropout(dropout), nn.Linear(hidden, d), nn.Dropout(dropout))
            for _ in range(blocks))
        self.out = nn.Sequential(nn.BatchNorm1d(d), nn.ReLU(), nn.Linear(d, 1))

    def forward(self, num, cat):
        x = self.inp(torch.cat([num] + [e(cat[:, i]) for i, e in enumerate(self.embeddings)], 1))
        for b in self.blocks:
            x = x + b(x)
        return self.out(x).squeeze(1)


def make_table(rows, seed):
    g = torch.Generator().manual_seed(seed)
    num = torch.randn(rows, N_NUM, generator=g)
    cat = torch.stack([torch.randint(0, c, (rows,), generator=g) for c in CARDINALITIES], 1)
    return TensorDataset(num, cat, (torch.rand(rows, generator=g) < 0.04).float())


class Validator:
    def __init__(self, table):
        self.num, self.cat, self.y = table.tensors

    @torch.no_grad()
    def __call__(self, model):
        model.eval()
        if fixed:
            parts = zip(self.num.split(8192), self.cat.split(8192))
            scores = torch.cat([model(n.cuda(), c.cuda()).cpu() for n, c in parts])
        else:
            scores = model(self.num.cuda(), self.cat.cuda()).cpu()
        model.train()
        brier = ((torch.sigmoid(scores) - self.y) ** 2).mean().item()
        ks = (scores[self.y == 1].mean() - scores[self.y == 0].mean()).item()
        return {"brier": brier, "separation": ks}


def main():
    torch.manual_seed(11)
    loader = DataLoader(make_table(40_000, 1), batch_size=4096, shuffle=True, drop_last=True)
    validate = Validator(make_table(300_000, 2))
    model = TabResNet().cuda()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=1e-5)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(12.0, device="cuda"))
    for epoch in range(2):
        for num, cat, y in loader:
            opt.zero_grad()
            loss = criterion(model(num.cuda(), cat.cuda()), y.cuda())
            loss.backward()
            opt.step()
        print("epoch", epoch, "train", loss.item(), validate(model))


if __name__ == "__main__":
    main()
