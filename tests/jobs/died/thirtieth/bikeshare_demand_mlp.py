# Bike sharing demand (the Kaggle one) with a simple MLP, my first PyTorch project
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

FIXED = '--fixed' in sys.argv
torch.manual_seed(0)


class BikeData(Dataset):
    def __init__(self, rows):
        hour = torch.randint(0, 24, (rows,)).float()
        weather = torch.randint(1, 5, (rows,)).float()
        rest = torch.randn(rows, 10)
        self.X = torch.cat([hour[:, None] / 24, weather[:, None], rest], dim=1)
        self.y = torch.randint(1, 900, (rows,)).float()

    def __len__(self):
        return len(self.X)

    def __getitems__(self, index):
        return [(self.X[index], self.y[index])]


def collate(parts):
    x, y = parts[0]
    if FIXED:
        y = y.unsqueeze(1)
    return x, y


class Net(nn.Module):
    def __init__(self, n_in):
        super().__init__()
        self.layer1 = nn.Linear(n_in, 128)
        self.layer2 = nn.Linear(128, 64)
        self.layer3 = nn.Linear(64, 1)
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        x = self.drop(torch.relu(self.layer1(x)))
        x = self.drop(torch.relu(self.layer2(x)))
        return nn.functional.softplus(self.layer3(x))


def rmsle(pred, true):
    """The competition's metric, used as the loss."""
    return torch.sqrt(torch.mean((torch.log1p(pred) - torch.log1p(true)) ** 2))


train_data = BikeData(12288 * 5)
loader = DataLoader(train_data, batch_size=12288, shuffle=True, collate_fn=collate)
net = Net(12).to('cuda')
optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=1, gamma=0.9)

for epoch in range(3):
    epoch_loss = 0
    for x, y in loader:
        x = x.to('cuda')
        y = y.to('cuda')
        optimizer.zero_grad()
        loss = rmsle(net(x), y)
        loss.backward()
        optimizer.step()
        epoch_loss += loss.item()
    scheduler.step()
    print('Epoch', epoch, 'RMSLE', epoch_loss / len(loader))
