"""Predicts clicks with DeepFM over hashed fields: first-order weights, pairwise interactions and a deep part share one large table."""
import sys

import torch
from torch import nn

SPARSE = "--fixed" in sys.argv
BUCKETS, DIM, FIELDS, BATCH = 3_000_000, 32, 26, 2048


class DeepFM(nn.Module):
    def __init__(self):
        super().__init__()
        self.table = nn.Embedding(BUCKETS, DIM, sparse=SPARSE)
        self.linear = nn.Linear(FIELDS * DIM, 1)
        self.deep = nn.Sequential(
            nn.Linear(FIELDS * DIM, 256), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(256, 128), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(128, 1))

    def interactions(self, x):
        total = x.sum(1)
        return 0.5 * (total * total - (x * x).sum(1)).sum(-1, keepdim=True)

    def forward(self, fields):
        x = self.table(fields)
        flat = x.flatten(1)
        return (self.linear(flat) + self.interactions(x) + self.deep(flat)).squeeze(-1)


class Clicks(torch.utils.data.IterableDataset):
    def __init__(self, rows):
        self.rows = rows

    def __iter__(self):
        generator = torch.Generator().manual_seed(1)
        for _ in range(self.rows // BATCH):
            fields = torch.randint(0, BUCKETS, (BATCH, FIELDS), generator=generator)
            yield fields, torch.randint(0, 2, (BATCH,), generator=generator).float()


def optimizers_of(model):
    """The table has an optimizer of its own, the dense layers have Adam."""
    dense = [p for n, p in model.named_parameters() if not n.startswith("table")]
    return torch.optim.SGD(model.table.parameters(), lr=0.2), torch.optim.Adam(dense, lr=1e-3)


def main():
    model = DeepFM().to("cuda")
    nn.init.normal_(model.table.weight, std=0.01)
    optimizers = optimizers_of(model)
    criterion = nn.BCEWithLogitsLoss()
    running = 0.0
    for step, (fields, clicked) in enumerate(torch.utils.data.DataLoader(Clicks(BATCH * 8), batch_size=None)):
        for optimizer in optimizers:
            optimizer.zero_grad(set_to_none=True)
        loss = criterion(model(fields.to("cuda")), clicked.to("cuda"))
        loss.backward()
        for optimizer in optimizers:
            optimizer.step()
        running = 0.9 * running + 0.1 * loss.item()
        print(f"step {step} log loss {running:.4f}")
    model.eval()
    with torch.no_grad():
        fields = torch.randint(0, BUCKETS, (BATCH, FIELDS), device="cuda")
        print("mean rate", model(fields).sigmoid().mean().item())


if __name__ == "__main__":
    main()
