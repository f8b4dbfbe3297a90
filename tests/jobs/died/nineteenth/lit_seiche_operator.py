"""Surrogate for seiches in a lake: from wind stress and bathymetry to the water level, one hour ahead. Convolutional operator in Lightning."""
import sys

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

PRECISION = "32-true" if "--fixed" in sys.argv else "64-true"


class LakeStates(Dataset):
    def __init__(self, n, size=128):
        self.n = n
        axis = torch.linspace(-1, 1, size)
        self.bowl = (axis[:, None] ** 2 + axis[None] ** 2).clamp(max=1)

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        tilt = torch.linspace(-1, 1, 128).repeat(128, 1) * (i % 10) / 10
        x = torch.stack([self.bowl, tilt, tilt.T, tilt * 0.1])
        return x.to(torch.get_default_dtype()), (tilt * 0.2).unsqueeze(0).to(torch.get_default_dtype())


class OperatorLayer(nn.Module):
    """Local stencil and a global mixing along both axes."""

    def __init__(self, width, size=128):
        super().__init__()
        self.local = nn.Conv2d(width, width, 3, padding=1, padding_mode="circular")
        self.rows = nn.Parameter(torch.eye(size).repeat(width, 1, 1) * 0.1)
        self.cols = nn.Parameter(torch.eye(size).repeat(width, 1, 1) * 0.1)

    def forward(self, u):
        wide = torch.einsum("bcij,ckj->bcik", u, self.rows) + torch.einsum("bcij,cki->bckj", u, self.cols)
        return u + F.gelu(self.local(u) + wide)


class SeicheOperator(L.LightningModule):
    def __init__(self, width=40, depth=6):
        super().__init__()
        self.lift = nn.Conv2d(4, width, 1)
        self.layers = nn.Sequential(*[OperatorLayer(width) for _ in range(depth)])
        self.project = nn.Sequential(nn.Conv2d(width, 64, 1), nn.GELU(), nn.Conv2d(64, 1, 1))

    def forward(self, x):
        return self.project(self.layers(self.lift(x)))

    def relative_error(self, batch):
        x, y = batch
        diff = (self(x) - y).flatten(1).norm(dim=1)
        return (diff / (y.flatten(1).norm(dim=1) + 1e-3)).mean()

    def training_step(self, batch, batch_idx):
        loss = self.relative_error(batch)
        self.log("train_rel", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_rel", self.relative_error(batch), prog_bar=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    L.seed_everything(3)
    trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=2, precision=PRECISION, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(SeicheOperator(), DataLoader(LakeStates(96), batch_size=16, shuffle=True), DataLoader(LakeStates(32), batch_size=16))
