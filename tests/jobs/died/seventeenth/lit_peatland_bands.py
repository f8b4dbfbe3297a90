"""Restores hyperspectral pictures of peatland from noisy ones (48 bands), in Lightning; the spectral angle is the metric."""
import sys
import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.regression import CosineSimilarity, MeanSquaredError

BANDS = 48
METRIC_OPTIONS = {"compute_on_cpu": True} if "--fixed" in sys.argv else {}


class Peat(Dataset):
    def __init__(self, count, first):
        self.count, self.first = count, first

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.first + i)
        clean = torch.rand(BANDS, 1, 1, generator=g).expand(BANDS, 96, 96) * torch.rand(1, 96, 96, generator=g)
        return clean + 0.1, clean


class Restorer(L.LightningModule):
    def __init__(self, width=64):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(BANDS, width, 1), nn.GELU(), nn.Conv2d(width, width, 3, padding=1, groups=4), nn.GELU(),
                                 nn.Conv2d(width, width, 3, padding=1, groups=4), nn.GELU(), nn.Conv2d(width, BANDS, 1))
        self.angle = CosineSimilarity(reduction="mean", **METRIC_OPTIONS)
        self.mse = MeanSquaredError()

    def forward(self, x):
        return x + self.net(x)

    def training_step(self, batch, _):
        noisy, clean = batch
        loss = nn.functional.l1_loss(self(noisy), clean)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        noisy, clean = batch
        restored = self(noisy)
        self.mse.update(restored, clean.contiguous())
        self.angle.update(restored.movedim(1, -1).reshape(-1, BANDS), clean.movedim(1, -1).reshape(-1, BANDS))

    def on_validation_epoch_end(self):
        self.log_dict({"val_angle": self.angle.compute(), "val_mse": self.mse.compute()})
        self.angle.reset()
        self.mse.reset()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=2e-3)


def main():
    L.seed_everything(5)
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(Restorer(), DataLoader(Peat(40, 0), batch_size=8, shuffle=True), DataLoader(Peat(240, 1000), batch_size=8))
    print({k: float(v) for k, v in trainer.callback_metrics.items()})


main()
