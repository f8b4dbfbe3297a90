"""Forecasts glucose curves of a sensor patch with a patched transformer in Lightning; logs the spread of the encodings per epoch."""
import sys
import warnings

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
COMPACT = "--fixed" in sys.argv


class GlucoseForecaster(L.LightningModule):
    def __init__(self, patch=12, dim=192, depth=3, horizon=24, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Linear(patch, dim)
        layer = nn.TransformerEncoderLayer(dim, 6, 2 * dim, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.head = nn.Linear(dim, horizon)
        self.epoch_codes = []

    def forward(self, curve):
        codes = self.encoder(self.embed(curve.unflatten(1, (-1, self.hparams.patch))))
        return self.head(codes.mean(1)), codes

    def training_step(self, batch, index):
        curve, future = batch
        forecast, codes = self(curve)
        loss = nn.functional.l1_loss(forecast, future)
        self.epoch_codes.append(codes.detach().mean(1).cpu() if COMPACT else codes)
        self.log("mae", loss, prog_bar=False)
        return loss

    def on_train_epoch_end(self):
        spread = torch.stack([codes.detach().flatten(1).std(0).mean() for codes in self.epoch_codes]).mean()
        self.log("code_spread", spread)
        self.epoch_codes.clear()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}


class GlucoseData(L.LightningDataModule):
    def __init__(self, wearers=4096, minutes=1152, batch=64):
        super().__init__()
        g = torch.Generator().manual_seed(15)
        self.data, self.batch = TensorDataset(torch.randn(wearers, minutes, generator=g), torch.randn(wearers, 24, generator=g)), batch

    def train_dataloader(self):
        return DataLoader(self.data, batch_size=self.batch, shuffle=True)


def main():
    L.seed_everything(1, verbose=False)
    trainer = L.Trainer(max_epochs=2, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0)
    trainer.fit(GlucoseForecaster(), datamodule=GlucoseData())
    print({key: float(value) for key, value in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
