"""Defects in terrazzo slabs, with Lightning. Training takes patches, validation the whole picture of a slab."""
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Slabs(Dataset):
    def __init__(self, n, side):
        self.n, self.side = n, side

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        picture = torch.full((3, self.side, self.side), (i % 7) / 7.0)
        return picture, torch.zeros(self.side, self.side, dtype=torch.long)


class SlabData(L.LightningDataModule):
    def __init__(self, batch_size=8):
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        return DataLoader(Slabs(48, 192), batch_size=self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(Slabs(16, 1280), batch_size=1 if "--fixed" in sys.argv else self.batch_size)


class Pyramid(nn.Module):
    def __init__(self, classes, width=32):
        super().__init__()
        chans = [width, width * 2, width * 4, width * 4]
        self.stages, before = nn.ModuleList(), 3
        for i, ch in enumerate(chans):
            self.stages.append(nn.Sequential(nn.Conv2d(before, ch, 3, stride=1 if i == 0 else 2, padding=1), nn.BatchNorm2d(ch), nn.SiLU(),
                                             nn.Conv2d(ch, ch, 3, padding=1), nn.BatchNorm2d(ch), nn.SiLU()))
            before = ch
        self.lateral = nn.ModuleList([nn.Conv2d(ch, width, 1) for ch in chans])
        self.head = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.SiLU(), nn.Conv2d(width, classes, 1))

    def forward(self, x):
        maps = []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        top = self.lateral[-1](maps[-1])
        for lateral, m in zip(list(self.lateral)[-2::-1], maps[-2::-1]):
            top = F.interpolate(top, size=m.shape[-2:], mode="nearest") + lateral(m)
        return self.head(top)


class DefectModule(L.LightningModule):
    def __init__(self, classes=5):
        super().__init__()
        self.net, self.classes = Pyramid(classes), classes

    def training_step(self, batch, _):
        x, y = batch
        return F.cross_entropy(self.net(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        logits = self.net(x)
        self.log("val/loss", F.cross_entropy(logits, y), batch_size=len(x))
        self.log("val/acc", (logits.argmax(1) == y).float().mean(), batch_size=len(x))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


L.seed_everything(7)
trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False, num_sanity_val_steps=0)
trainer.fit(DefectModule(), datamodule=SlabData())
