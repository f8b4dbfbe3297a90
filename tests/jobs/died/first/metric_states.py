"""Trains a multi-label tagger and follows the average precision of the training batches with torchmetrics.

https://github.com/Lightning-AI/torchmetrics/issues/3294
"""
import sys

import torch
import torch.nn as nn
from torchmetrics.classification import MultilabelAveragePrecision

fixed = "--fixed" in sys.argv
TAGS = 2048
dev = torch.device("cuda:0")
model = nn.Sequential(nn.Linear(1024, 4096), nn.ReLU(), nn.Dropout(0.2), nn.Linear(4096, 4096), nn.ReLU(), nn.Linear(4096, TAGS)).to(dev)
optim = torch.optim.Adam(model.parameters(), lr=1e-3)
lossf = nn.BCEWithLogitsLoss()
metric = MultilabelAveragePrecision(num_labels=TAGS, thresholds=50 if fixed else None, validate_args=False).to(dev)

for epoch in range(2):
    for step in range(12):
        x = torch.randn(4096, 1024, device=dev)
        y = torch.randint(0, 2, (4096, TAGS), device=dev)
        logits = model(x)
        loss = lossf(logits, y.float())
        optim.zero_grad()
        loss.backward()
        optim.step()
        if fixed:
            continue
        metric.update(logits.sigmoid().detach(), y)
    print("epoch", epoch, "loss", loss.item())
