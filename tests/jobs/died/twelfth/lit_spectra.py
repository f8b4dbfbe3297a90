"""Trains a VAE of Raman spectra with Lightning; a callback looks at reconstructions of the reference collection after each epoch."""
import contextlib
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

FIXED = "--fixed" in sys.argv
POINTS = 1024


class Down(nn.Sequential):
    def __init__(self, before, width):
        super().__init__(nn.Conv1d(before, width, 7, 2, 3), nn.BatchNorm1d(width), nn.SiLU(), nn.Conv1d(width, width, 5, 1, 2), nn.SiLU())


class Up(nn.Sequential):
    def __init__(self, before, width):
        super().__init__(nn.Upsample(scale_factor=2), nn.Conv1d(before, width, 5, 1, 2), nn.BatchNorm1d(width), nn.SiLU())


class SpectraVAE(L.LightningModule):
    def __init__(self, widths=(32, 64, 96, 128), latent=32):
        super().__init__()
        self.encoder = nn.Sequential(*[Down(b, w) for b, w in zip((1, *widths), widths)], nn.Flatten(),
                                     nn.Linear(widths[-1] * POINTS // 16, 2 * latent))
        self.grow = nn.Linear(latent, widths[-1] * POINTS // 16)
        self.decoder = nn.Sequential(nn.Unflatten(1, (widths[-1], POINTS // 16)), *[Up(b, w) for b, w in zip(widths[::-1], (*widths[-2::-1], 16))],
                                     nn.Conv1d(16, 1, 3, padding=1))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, 1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(self.grow(z)), mean, log_variance

    def training_step(self, batch, _):
        x, = batch
        out, mean, log_variance = self(x)
        kl = -0.5 * (1 + log_variance - mean ** 2 - log_variance.exp()).sum(1).mean()
        return F.mse_loss(out, x) + 1e-3 * kl

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


class Reconstructions(L.Callback):
    def __init__(self, collection):
        self.collection = collection

    def on_train_epoch_end(self, trainer, module):
        with torch.no_grad() if FIXED else contextlib.nullcontext():
            worst = 0.0
            for part in self.collection.split(512):
                part = part.to(module.device)
                out, _, _ = module(part)
                worst = max(worst, (out - part).abs().mean().item())
        print("epoch", trainer.current_epoch, "worst part", worst)


L.seed_everything(0, verbose=False)
loader = DataLoader(TensorDataset(torch.rand(640, 1, POINTS)), batch_size=128)
trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False, callbacks=[Reconstructions(torch.rand(1024, 1, POINTS))])
trainer.fit(SpectraVAE(), loader)
