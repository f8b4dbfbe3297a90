"""Lightning: a U-Net that finds slip faces of dunes (12 kinds) on orbiter images; the confusion matrix is made at the end of each validation."""
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv


class Orbiter(Dataset):
    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        return torch.randn(1, 256, 256, generator=g), torch.randint(0, 12, (256, 256), generator=g)


def double(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(True),
                         nn.Conv2d(b, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(True))


class DuneNet(L.LightningModule):
    def __init__(self, w=16, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.d1, self.d2, self.d3 = double(1, w), double(w, 2 * w), double(2 * w, 4 * w)
        self.u2, self.u1 = double(6 * w, 2 * w), double(3 * w, w)
        self.head = nn.Conv2d(w, 12, 1)
        self.val_out = []

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([b, F.interpolate(c, scale_factor=2)], 1))
        a = self.u1(torch.cat([a, F.interpolate(b, scale_factor=2)], 1))
        return self.head(a)

    def training_step(self, batch, _):
        x, y = batch
        loss = F.cross_entropy(self(x), y)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        logits = self(x)
        self.log("val/loss", F.cross_entropy(logits, y), on_epoch=True)
        self.val_out.append((logits.argmax(1).to(torch.uint8).cpu(), y.cpu()) if FIXED else (logits, y))

    def on_validation_epoch_end(self):
        matrix = torch.zeros(12, 12)
        for guess, truth in self.val_out:
            guess = guess if FIXED else guess.argmax(1).cpu()
            pairs = truth.cpu().flatten() * 12 + guess.flatten().long().clamp(0, 11)
            matrix += torch.bincount(pairs, minlength=144)[:144].view(12, 12)
        self.val_out.clear()
        self.print("diagonal", (matrix.diag().sum() / matrix.sum()).item())

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


if __name__ == "__main__":
    L.seed_everything(3, verbose=False)
    train, valid = DataLoader(Orbiter(48, 0), 8), DataLoader(Orbiter(520, 10000), 8)
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(DuneNet(), train, valid)
