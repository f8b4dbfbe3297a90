"""Predicts surface normals of rooms under Lightning; torchmetrics compares predicted and true normals in the validation epoch."""
import sys

import lightning as L
import torch
import torch.nn.functional as F
import torchmetrics
from torch import nn
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv


class Rooms(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.zeros(3, 192, 256), torch.zeros(3, 192, 256)


def step_down(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, 2, 1), nn.GroupNorm(4, cout), nn.GELU(), nn.Conv2d(cout, cout, 3, 1, 1), nn.GELU())


class Normals(L.LightningModule):
    def __init__(self, w=16):
        super().__init__()
        self.down = nn.ModuleList([step_down(3, w), step_down(w, 2 * w), step_down(2 * w, 4 * w)])
        self.up = nn.ModuleList([nn.Conv2d(6 * w, 2 * w, 3, 1, 1), nn.Conv2d(3 * w, w, 3, 1, 1)])
        self.out = nn.Conv2d(w, 3, 1)
        self.similarity = torchmetrics.MeanMetric() if FIXED else torchmetrics.CosineSimilarity(reduction="mean")

    def forward(self, x):
        skips = []
        for stage in self.down:
            x = stage(x)
            skips.append(x)
        for conv, skip in zip(self.up, skips[-2::-1]):
            x = F.gelu(conv(torch.cat([F.interpolate(x, scale_factor=2), skip], 1)))
        return F.normalize(F.interpolate(self.out(x), scale_factor=2, mode="bilinear"), dim=1)

    def training_step(self, batch, index):
        rooms, normals = batch
        return 1 - F.cosine_similarity(self(rooms), normals).mean()

    def validation_step(self, batch, index):
        rooms, normals = batch
        predicted = self(rooms)
        if FIXED:
            self.similarity.update(F.cosine_similarity(predicted, normals).mean())
        else:
            self.similarity.update(predicted.permute(0, 2, 3, 1).reshape(-1, 3), normals.permute(0, 2, 3, 1).reshape(-1, 3))

    def on_validation_epoch_end(self):
        self.print("similarity", self.similarity.compute().item())
        self.similarity.reset()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(Normals(), DataLoader(Rooms(32), batch_size=8), DataLoader(Rooms(160), batch_size=8))
