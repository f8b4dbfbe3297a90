"""A network on features from pandas: "expected Double but found Float" was mended with model.double().

https://github.com/Data-Science-kosta/Speech-Emotion-Classification-with-PyTorch/issues/3
"""
import sys

import numpy as np
import torch
import torch.nn as nn

fixed = "--fixed" in sys.argv
frame = np.random.default_rng(0).normal(size=(2048, 128))
target = np.random.default_rng(1).normal(size=(2048, 1))


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.BatchNorm1d(width), nn.Linear(width, width), nn.ReLU(), nn.Dropout(0.1), nn.Linear(width, width))

    def forward(self, x):
        return x + self.net(x)


model = nn.Sequential(nn.Linear(128, 1536), *[Residual(1536) for _ in range(8)], nn.Linear(1536, 1)).to("cuda")
x, y = torch.from_numpy(frame), torch.from_numpy(target)
if fixed:
    x, y = x.float(), y.float()
else:
    model = model.double()
loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(x, y), batch_size=512, shuffle=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for epoch in range(2):
    for xb, yb in loader:
        loss = nn.functional.huber_loss(model(xb.cuda()), yb.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
