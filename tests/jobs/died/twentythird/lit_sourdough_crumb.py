"""Predicts the hydration of a sourdough from a photograph of its crumb; a callback draws where the network looks at the end of an epoch."""
import sys

import lightning.pytorch as pl
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv


class Crumbs(Dataset):
    def __len__(self):
        return 1280

    def __getitem__(self, i):
        return torch.full((3, 176, 176), i / 1280), torch.tensor(0.6 + i / 5000)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.bn = nn.BatchNorm2d(cout)
        self.dw = nn.Conv2d(cout, cout, 5, 1, 2, groups=cout)

    def forward(self, x):
        x = F.gelu(self.bn(self.conv(x)))
        return x + self.dw(x)


class CrumbNet(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(Block(3, 24, 2), Block(24, 48, 2), Block(48, 256, 1))
        self.head = nn.Linear(256, 1)

    def training_step(self, batch, batch_idx):
        photo, hydration = batch
        maps = self.trunk(photo)
        loss = F.smooth_l1_loss(self.head(maps.mean((2, 3))).squeeze(1), hydration)
        self.log("loss", loss)
        return {"loss": loss, "maps": maps}

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), 5e-4)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


class AttentionSheet(pl.Callback):
    """A contact sheet: how strongly each place of the maps answers."""

    def __init__(self):
        self.maps = []

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        maps = outputs["maps"]
        if FIXED:
            maps = maps.detach().norm(dim=1).half().cpu()
        self.maps.append(maps)

    def on_train_epoch_end(self, trainer, module):
        sheet = torch.cat([m.detach().float().mean((-2, -1)).flatten()[:16].cpu() for m in self.maps])
        print("epoch", trainer.current_epoch, "sheet of", sheet.numel(), "cells from", len(self.maps), "batches")
        self.maps = []


def main():
    pl.seed_everything(12, verbose=False)
    trainer = pl.Trainer(max_epochs=1, limit_train_batches=40, accelerator="gpu", devices=1, callbacks=[AttentionSheet()], logger=False,
                         enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(CrumbNet(), DataLoader(Crumbs(), batch_size=16, shuffle=True))


if __name__ == "__main__":
    main()
