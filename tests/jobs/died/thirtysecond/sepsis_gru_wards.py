"""Early warning of sepsis on wards. GRU over hourly vitals, after the PhysioNet 2019 challenge."""
import sys
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

N_VITALS = 22


class SepsisGRU(nn.Module):
    def __init__(self, hidden=192):
        super().__init__()
        self.inp = nn.Sequential(nn.Linear(N_VITALS, hidden), nn.LayerNorm(hidden), nn.GELU())
        self.gru = nn.GRU(hidden, hidden, num_layers=2, batch_first=True)
        self.out = nn.Linear(hidden, 1)

    def forward(self, vitals):
        h, _ = self.gru(self.inp(vitals))
        return self.out(h).squeeze(-1)


def make_cohort(n_patients, hours, seed):
    g = torch.Generator().manual_seed(seed)
    x = torch.randn(n_patients, hours, N_VITALS, generator=g)
    y = (torch.rand(n_patients, hours, generator=g) < 0.07).float()
    return x, y


def evaluate(model, val_x, val_y, device):
    """Mean utility over the validation hospital."""
    model.eval()
    with torch.no_grad():
        if "--fixed" in sys.argv:
            probs = torch.cat([torch.sigmoid(model(part.to(device))).cpu() for part in val_x.split(128)])
        else:
            probs = torch.sigmoid(model(val_x.to(device))).cpu()
    alarm = probs > 0.5
    sensitivity = (alarm & (val_y > 0)).sum() / (val_y > 0).sum()
    specificity = (~alarm & (val_y == 0)).sum() / (val_y == 0).sum()
    model.train()
    return sensitivity.item(), specificity.item()


def main():
    device = "cuda"
    train_x, train_y = make_cohort(960, 72, seed=1)
    val_x, val_y = make_cohort(2400, 336, seed=2)
    loader = DataLoader(TensorDataset(train_x, train_y), batch_size=64, shuffle=True)
    model = SepsisGRU().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(12.0, device=device))
    for epoch in range(2):
        for x, y in loader:
            optimizer.zero_grad()
            loss = criterion(model(x.to(device)), y.to(device))
            loss.backward()
            optimizer.step()
        print(epoch, loss.item(), evaluate(model, val_x, val_y, device))


main()
