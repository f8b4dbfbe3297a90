"""Sizes lack-of-fusion flaws in phased-array ultrasound of welds (Lightning); the maps of the epoch give a histogram of flaw areas."""
import sys

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv


class SectorScans(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        flaw = torch.zeros(256, 256, dtype=torch.long)
        flaw[i % 200:i % 200 + 20, 40:80] = 1 + i % 5
        return flaw.float()[None] * 0.2, flaw


class WeldSizer(L.LightningModule):
    def __init__(self, width=16, kinds=6):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv2d(1, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=2, dilation=2), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, width, 3, padding=4, dilation=4), nn.BatchNorm2d(width), nn.ReLU(),
            nn.Conv2d(width, kinds, 1))
        self.epoch_maps = []

    def training_step(self, batch, batch_idx):
        scan, flaw = batch
        logits = self.net(scan)
        loss = F.cross_entropy(logits, flaw)
        probs = logits.softmax(1)
        self.epoch_maps.append(probs[:, 1:].detach().sum((2, 3)).cpu() if FIXED else probs)
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self):
        areas = torch.cat([m if m.ndim == 2 else m[:, 1:].detach().sum((2, 3)).cpu() for m in self.epoch_maps])
        print("epoch", self.current_epoch, "flaw areas", areas.mean(0).tolist())
        self.epoch_maps.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


trainer = L.Trainer(max_epochs=2, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False)
trainer.fit(WeldSizer(), DataLoader(SectorScans(640), batch_size=8))
