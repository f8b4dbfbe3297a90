"""Lanes of roads with Lightning; the validation step stores the logits so that on_validation_epoch_end can compute the IoU of all at once.
https://github.com/behavioral-data/Homekit2020/issues/13 is a case of it."""
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv


class Roads(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.zeros(3, 288, 512), torch.zeros(288, 512, dtype=torch.long)


class LaneNet(L.LightningModule):
    def __init__(self, classes=12, w=48):
        super().__init__()
        self.enc = nn.ModuleList([nn.Conv2d(3, w, 3, 2, 1), nn.Conv2d(w, 2 * w, 3, 2, 1), nn.Conv2d(2 * w, 4 * w, 3, 2, 1)])
        self.mid = nn.Sequential(nn.Conv2d(4 * w, 8 * w, 3, 1, 1), nn.BatchNorm2d(8 * w), nn.ReLU(), nn.Conv2d(8 * w, 4 * w, 3, 1, 1), nn.ReLU())
        self.head = nn.Conv2d(4 * w, classes, 1)
        self.outputs, self.classes = [], classes

    def forward(self, x):
        size = x.shape[-2:]
        for conv in self.enc:
            x = F.relu(conv(x))
        return F.interpolate(self.head(self.mid(x)), size=size, mode="bilinear")

    def training_step(self, batch, _):
        return F.cross_entropy(self(batch[0]), batch[1])

    def validation_step(self, batch, _):
        logits = self(batch[0])
        if FIXED:
            self.outputs.append((logits.argmax(1).to(torch.uint8).cpu(), batch[1].to(torch.uint8).cpu()))
        else:
            self.outputs.append((logits, batch[1]))

    def on_validation_epoch_end(self):
        pred = torch.cat([p if FIXED else p.argmax(1) for p, _ in self.outputs])
        gold = torch.cat([g for _, g in self.outputs])
        self.log("pixel_acc", (pred == gold).float().mean())
        self.outputs.clear()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.01, momentum=0.9)


trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    num_sanity_val_steps=0)
trainer.fit(LaneNet(), DataLoader(Roads(48), batch_size=8), DataLoader(Roads(192), batch_size=16))
