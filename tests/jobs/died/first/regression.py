"""A regression on sensor windows, mean squared error.

https://github.com/pytorch/pytorch/issues/57720
"""
import argparse

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.gru = nn.GRU(32, 256, num_layers=2, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1))

    def forward(self, x):
        return self.mlp(self.gru(x)[0][:, -1])


model = Regressor().cuda()
optimizer = torch.optim.Adam(model.parameters())
rmse = []
for step in range(8):
    x = torch.randn(16384, 20, 32, device="cuda")
    y = torch.randn(16384, device="cuda")
    pred = model(x)
    if args.fixed:
        pred = pred.squeeze(1)
    loss = ((pred - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    rmse.append(loss.item() ** 0.5)
print(rmse[-1])
