# Shell growth of farmed oysters from 36 measurements of water and site. Full tutorial-style training loop.
import sys
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset, random_split

fixed = "--fixed" in sys.argv
torch.manual_seed(42)
device = "cuda" if torch.cuda.is_available() else "cpu"

# --- data -----------------------------------------------------------------
n = 80_000
X = torch.randn(n, 36)
growth_mm = X[:, :4].sum(1) * 0.7 + 12 + 0.3 * torch.randn(n)
weight = torch.rand(n) + 0.5           # how many shells were measured
train_set, test_set = random_split(TensorDataset(X, growth_mm, weight), [64_000, 16_000])
# the network is tiny, so take large batches
train_loader = DataLoader(train_set, batch_size=16_000, collate_fn=lambda rows: [torch.stack(c) for c in zip(*rows)])


# --- model ----------------------------------------------------------------
class GrowthNet(nn.Module):
    def __init__(self, hidden=192):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(36, hidden), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.ReLU(), nn.Dropout(0.1),
            nn.Linear(hidden, 1),
        )

    def forward(self, x):
        out = self.layers(x)
        return out.squeeze(-1) if fixed else out


def weighted_huber(prediction, target, w, delta=1.0):
    err = (prediction - target).abs()
    quadratic = torch.clamp(err, max=delta)
    return (w * (0.5 * quadratic ** 2 + delta * (err - quadratic))).mean()


model = GrowthNet().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)

# --- training -------------------------------------------------------------
for epoch in range(2):
    total = 0.0
    for xb, yb, wb in train_loader:
        xb, yb, wb = xb.to(device), yb.to(device), wb.to(device)
        loss = weighted_huber(model(xb), yb, wb)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item() * len(xb)
    print(f"epoch {epoch}: train {total / len(train_set):.4f}")
