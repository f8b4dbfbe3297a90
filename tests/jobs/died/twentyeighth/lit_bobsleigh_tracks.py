"""Estimates the sledge's drift angle from twelve sensors. A callback draws the estimate over one complete run after each epoch."""
import sys

import torch
import torch.nn as nn
import pytorch_lightning as pl
from torch.utils.data import DataLoader, TensorDataset

SENSORS = 12


class Residual1d(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, width, 5, padding=2 * dilation, dilation=dilation)
        self.norm = nn.GroupNorm(8, width)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return x + self.mix(torch.nn.functional.gelu(self.norm(self.conv(x))))


class DriftAngle(pl.LightningModule):
    def __init__(self, width=64):
        super().__init__()
        self.inlet = nn.Conv1d(SENSORS, width, 7, padding=3)
        self.blocks = nn.ModuleList(Residual1d(width, 2 ** k) for k in range(7))
        self.outlet = nn.Conv1d(width, 1, 1)

    def forward(self, x):
        x = self.inlet(x)
        for block in self.blocks:
            x = block(x)
        return self.outlet(x)

    def training_step(self, batch, _):
        signal, angle = batch
        return nn.functional.mse_loss(self(signal), angle)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


class RunReport(pl.Callback):
    """Compares the estimate with the reference of one complete run (three minutes at 2 kHz)."""

    def __init__(self, seconds=180, rate=2000):
        gen = torch.Generator().manual_seed(7)
        self.run = torch.randn(1, SENSORS, seconds * rate, generator=gen)
        self.truth = torch.randn(1, 1, seconds * rate, generator=gen)

    def on_train_epoch_end(self, trainer, pl_module):
        pl_module.eval()
        if "--fixed" in sys.argv:
            with torch.no_grad():
                self.report(trainer, pl_module)
        else:
            self.report(trainer, pl_module)
        pl_module.train()

    def report(self, trainer, module):
        estimate = module(self.run.to(module.device))
        error = (estimate - self.truth.to(module.device)).abs()
        print("epoch", trainer.current_epoch, "mean", error.mean().item(), "worst", error.max().item())


gen = torch.Generator().manual_seed(1)
windows = TensorDataset(torch.randn(128, SENSORS, 2048, generator=gen), torch.randn(128, 1, 2048, generator=gen))
trainer = pl.Trainer(max_epochs=2, accelerator="gpu", devices=1, callbacks=[RunReport()], logger=False, enable_checkpointing=False,
                     enable_progress_bar=False, enable_model_summary=False)
trainer.fit(DriftAngle(), DataLoader(windows, batch_size=16, shuffle=True))
