"""Lesion segmentation for dermoscopy (ISIC style), master's thesis code. Lightning + torchmetrics."""
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import BinaryAveragePrecision

FIXED = "--fixed" in sys.argv
SIDE = 256


class Dermoscopy(Dataset):
    def __init__(self, n):
        g = torch.Generator().manual_seed(n)
        self.photos = torch.rand(8, 3, SIDE, SIDE, generator=g)
        self.masks = (torch.rand(8, SIDE, SIDE, generator=g) > 0.7).long()
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return self.photos[i % 8], self.masks[i % 8]


def block(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.InstanceNorm2d(o), nn.LeakyReLU(0.1, inplace=True))


class LesionNet(L.LightningModule):
    def __init__(self, c=8, lr=3e-3):
        super().__init__()
        self.lr = lr
        self.d1, self.d2, self.d3 = block(3, c), block(c, 2 * c), block(2 * c, 4 * c)
        self.u2, self.u1 = block(6 * c, 2 * c), block(3 * c, c)
        self.out = nn.Conv2d(c, 1, 1)
        self.val_ap = BinaryAveragePrecision(thresholds=None, validate_args=False, compute_on_cpu=FIXED)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        z = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(z, scale_factor=2), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.out(a).squeeze(1)

    def training_step(self, batch, _):
        x, y = batch
        loss = F.binary_cross_entropy_with_logits(self(x), y.float())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        logits = self(x)
        self.val_ap.update(torch.sigmoid(logits), y)
        self.log("val_loss", F.binary_cross_entropy_with_logits(logits, y.float()))

    def on_validation_epoch_end(self):
        ap = self.val_ap.compute()
        self.log("val_ap", ap)
        self.val_ap.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=self.lr)


if __name__ == "__main__":
    L.seed_everything(7)
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(LesionNet(), DataLoader(Dermoscopy(24), batch_size=4, shuffle=True), DataLoader(Dermoscopy(320), batch_size=8))
