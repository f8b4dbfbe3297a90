"""Semantic segmentation with Lightning; the validation's outputs are collected for metrics over the whole epoch.

https://github.com/Lightning-AI/pytorch-lightning/pull/16520
"""
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv


class Scenes(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.zeros(3, 256, 256), torch.zeros(256, 256, dtype=torch.long)


class FCN(L.LightningModule):
    def __init__(self, classes=21, width=64):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(3, width, 3, 2, 1), nn.ReLU(), nn.Conv2d(width, 2 * width, 3, 2, 1), nn.ReLU(),
                                     nn.Conv2d(2 * width, 8 * width, 3, 1, 1), nn.ReLU(), nn.Conv2d(8 * width, 8 * width, 3, 1, 1), nn.ReLU(),
                                     nn.Conv2d(8 * width, 16 * width, 3, 1, 1), nn.ReLU())
        self.head = nn.Conv2d(16 * width, classes, 1)
        self.validation_step_outputs = []

    def forward(self, x):
        return F.interpolate(self.head(self.encoder(x)), scale_factor=4, mode="bilinear")

    def training_step(self, batch, batch_idx):
        x, y = batch
        return F.cross_entropy(self(x), y)

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        if FIXED:
            logits = logits.argmax(1).to(torch.uint8)
        self.validation_step_outputs.append({"preds": logits, "target": y})

    def on_validation_epoch_end(self):
        hits = sum((o["preds"].shape[0] for o in self.validation_step_outputs))
        self.log("seen", float(hits))
        self.validation_step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


trainer = L.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
                    num_sanity_val_steps=0)
trainer.fit(FCN(), DataLoader(Scenes(40), batch_size=8), DataLoader(Scenes(240), batch_size=8))
