"""Utility company: probabilistic forecast of smart meter readings with Lightning; CRPS over the whole validation set."""
import sys

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

KEEP_ON_CPU = "--fixed" in sys.argv


def crps(samples, target):
    """samples: (batch, n, horizon)"""
    half = samples.shape[1] // 2
    return (samples - target[:, None]).abs().mean() - 0.5 * (samples[:, :half] - samples[:, half:]).abs().mean()


class MeterForecaster(L.LightningModule):
    def __init__(self, context=192, horizon=96, d=128, n_samples=200, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.enc = nn.LSTM(1, d, batch_first=True)
        self.loc, self.scale = nn.Linear(d, horizon), nn.Linear(d, horizon)
        self.val_samples, self.val_targets = [], []

    def forward(self, x):
        _, (h, _) = self.enc(x.unsqueeze(-1))
        return self.loc(h[-1]), nn.functional.softplus(self.scale(h[-1])) + 1e-3

    def training_step(self, batch, _):
        x, y = batch
        loc, scale = self(x)
        loss = (torch.log(scale) + 0.5 * ((y - loc) / scale) ** 2).mean()
        self.log("train_nll", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        loc, scale = self(x)
        eps = torch.randn(x.shape[0], self.hparams.n_samples, self.hparams.horizon, device=self.device)
        samples = loc[:, None] + eps * scale[:, None]
        if KEEP_ON_CPU:
            samples, y = samples.half().cpu(), y.cpu()
        self.val_samples.append(samples)
        self.val_targets.append(y)

    def on_validation_epoch_end(self):
        score = sum(crps(s, t) for s, t in zip(self.val_samples, self.val_targets)) / len(self.val_samples)
        self.print("val_crps", float(score))
        self.val_samples.clear()
        self.val_targets.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def readings(n, seed):
    g = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.rand(n, 192, generator=g), torch.rand(n, 96, generator=g))


trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False)
trainer.fit(MeterForecaster(), DataLoader(readings(2560, 0), batch_size=256, shuffle=True), DataLoader(readings(512 * 26, 1), batch_size=512))
