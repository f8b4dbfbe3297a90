"""Pansharpening of satellite images of olive groves: eight bands and a panchromatic one, Lightning and torchmetrics."""
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MeanMetric
from torchmetrics.functional.image import error_relative_global_dimensionless_synthesis, spectral_angle_mapper
from torchmetrics.image import ErrorRelativeGlobalDimensionlessSynthesis, SpectralAngleMapper

FIXED = "--fixed" in sys.argv


class Scenes(Dataset):
    def __init__(self, n, size):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        bands = torch.full((8, self.size, self.size), 0.1 + 0.01 * (i % 7))
        low = F.avg_pool2d(bands, 4)
        return {"pan": bands.mean(0, keepdim=True), "low": low, "bands": bands}


class PanNet(L.LightningModule):
    def __init__(self, width=32, blocks=4):
        super().__init__()
        self.first = nn.Conv2d(9, width, 3, padding=1)
        self.blocks = nn.ModuleList([nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
                                                   nn.Conv2d(width, width, 3, padding=1)) for _ in range(blocks)])
        self.last = nn.Conv2d(width, 8, 3, padding=1)
        if FIXED:
            self.ergas, self.sam = MeanMetric(), MeanMetric()
        else:
            self.ergas = ErrorRelativeGlobalDimensionlessSynthesis(ratio=0.25)
            self.sam = SpectralAngleMapper()

    def forward(self, batch):
        up = F.interpolate(batch["low"], scale_factor=4, mode="bilinear")
        h = self.first(torch.cat([up, batch["pan"]], 1))
        for block in self.blocks:
            h = h + block(h)
        return up + self.last(F.relu(h))

    def training_step(self, batch, _):
        loss = F.l1_loss(self(batch), batch["bands"])
        self.log("l1", loss, prog_bar=False)
        return loss

    def validation_step(self, batch, _):
        guess = self(batch)
        if FIXED:
            self.ergas.update(error_relative_global_dimensionless_synthesis(guess, batch["bands"], ratio=0.25))
            self.sam.update(spectral_angle_mapper(guess, batch["bands"]))
        else:
            self.ergas.update(guess, batch["bands"])
            self.sam.update(guess, batch["bands"])
        self.log("val_ergas", self.ergas, on_epoch=True)
        self.log("val_sam", self.sam, on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-4)


trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, num_sanity_val_steps=0)
trainer.fit(PanNet(), DataLoader(Scenes(32, 128), batch_size=4, shuffle=True), DataLoader(Scenes(100, 256), batch_size=4))
print({k: float(v) for k, v in trainer.callback_metrics.items()})
