"""Who scored the touch? Video classifier for fencing bouts in Lightning."""
import sys

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Bouts(Dataset):
    def __init__(self, count, clip_length):
        self.count, self.clip_length = count, clip_length
        self.generator = torch.Generator().manual_seed(4)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        clip = torch.rand(3, self.clip_length, 112, 112, generator=self.generator)
        return clip, index % 3


class BoutData(L.LightningDataModule):
    def __init__(self, clip_length=64, batch_size=8):
        super().__init__()
        self.save_hyperparameters()

    def train_dataloader(self):
        return DataLoader(Bouts(48, self.hparams.clip_length), batch_size=self.hparams.batch_size, shuffle=False)


class SpaceTime(nn.Module):
    def __init__(self, a, b, stride=1):
        super().__init__()
        middle = (a + b) // 2
        self.space = nn.Conv3d(a, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False)
        self.norm = nn.BatchNorm3d(middle)
        self.time = nn.Conv3d(middle, b, (3, 1, 1), (1, 1, 1), (1, 0, 0), bias=False)
        self.norm2 = nn.BatchNorm3d(b)

    def forward(self, x):
        return F.relu(self.norm2(self.time(F.relu(self.norm(self.space(x))))))


class TouchClassifier(L.LightningModule):
    def __init__(self, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.trunk = nn.Sequential(SpaceTime(3, 24, 2), SpaceTime(24, 24), SpaceTime(24, 48, 2), SpaceTime(48, 48), SpaceTime(48, 96, 2))
        self.head = nn.Linear(96, 3)

    def training_step(self, batch, batch_idx):
        clip, touch = batch
        logits = self.head(self.trunk(clip).mean((2, 3, 4)))
        loss = F.cross_entropy(logits, touch)
        self.log("train_loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr)


def main():
    data = BoutData(clip_length=12) if "--fixed" in sys.argv else BoutData()
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    trainer.fit(TouchClassifier(), data)


main()
