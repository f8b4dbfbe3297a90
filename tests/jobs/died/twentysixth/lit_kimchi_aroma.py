# Predicts the mass spectrum of a kimchi's head space from 48 gas sensors.  The validation figure: mean cosine similarity.
import sys

import lightning.pytorch as pl
import torch
import torch.nn as nn
import torchmetrics
from torch.utils.data import DataLoader, IterableDataset

BINS = 4096
on_cpu = "--fixed" in sys.argv


class Jars(IterableDataset):
    def __init__(self, batches, batch, seed):
        self.batches, self.batch, self.seed = batches, batch, seed

    def __len__(self):
        return self.batches

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        peaks = torch.rand(64, BINS, generator=g)
        for _ in range(self.batches):
            pick = torch.randint(64, (self.batch,), generator=g)
            yield torch.randn(self.batch, 48, generator=g), peaks[pick]


class Aroma(pl.LightningModule):
    def __init__(self, hidden=512):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(48, hidden), nn.SiLU(), nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.SiLU(),
                                 nn.Linear(hidden, BINS), nn.Softplus())
        self.similarity = torchmetrics.CosineSimilarity(reduction="mean", compute_on_cpu=on_cpu)

    def training_step(self, batch, _):
        sensors, spectrum = batch
        loss = nn.functional.mse_loss(self.net(sensors).sqrt(), spectrum.sqrt())
        self.log("loss", loss, prog_bar=False)
        return loss

    def validation_step(self, batch, _):
        sensors, spectrum = batch
        self.similarity.update(self.net(sensors), spectrum)

    def on_validation_epoch_end(self):
        print("similarity", float(self.similarity.compute()))
        self.similarity.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


pl.seed_everything(0)
trainer = pl.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                     enable_progress_bar=False, num_sanity_val_steps=0, enable_model_summary=False)
trainer.fit(Aroma(), DataLoader(Jars(12, 256, 1), batch_size=None), DataLoader(Jars(56, 512, 2), batch_size=None))
