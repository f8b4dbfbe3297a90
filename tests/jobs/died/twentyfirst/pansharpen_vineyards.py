"""Pansharpening of vineyard scenes (16 bands), PyTorch Lightning; quality by spectral angle and ERGAS."""
import sys
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.image import ErrorRelativeGlobalDimensionlessSynthesis, SpectralAngleMapper

warnings.filterwarnings("ignore")
OPTIONS = {"compute_on_cpu": True} if "--fixed" in sys.argv else {}


class Scenes(Dataset):
    def __init__(self, count):
        g = torch.Generator().manual_seed(8)
        self.count = count
        self.scene = torch.rand(16, 128, 128, generator=g) + 0.05

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        sharp = self.scene.roll(i, -1)
        coarse = F.avg_pool2d(sharp, 4)
        return coarse, sharp.mean(0, keepdim=True), sharp


class PanNet(L.LightningModule):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(17, width, 3, padding=1), nn.ReLU(), nn.Conv2d(width, width, 3, padding=1), nn.ReLU(),
                                 nn.Conv2d(width, 16, 3, padding=1))
        self.sam = SpectralAngleMapper(**OPTIONS)
        self.ergas = ErrorRelativeGlobalDimensionlessSynthesis(ratio=4, **OPTIONS)

    def forward(self, coarse, pan):
        up = F.interpolate(coarse, scale_factor=4, mode="bilinear")
        return up + self.net(torch.cat([up, pan], 1))

    def training_step(self, batch, _):
        coarse, pan, sharp = batch
        loss = F.l1_loss(self(coarse, pan), sharp)
        self.log("train_l1", loss)
        return loss

    def validation_step(self, batch, _):
        coarse, pan, sharp = batch
        fused = self(coarse, pan)
        self.sam.update(fused, sharp)
        self.ergas.update(fused, sharp)

    def on_validation_epoch_end(self):
        print("SAM", float(self.sam.compute()), "ERGAS", float(self.ergas.compute()))
        self.sam.reset()
        self.ergas.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=3e-4)


if __name__ == "__main__":
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(PanNet(), DataLoader(Scenes(64), batch_size=8), DataLoader(Scenes(480), batch_size=16))
