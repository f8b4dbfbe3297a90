import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

FIXED = "--fixed" in sys.argv


class CavePhotos(Dataset):
    """Photos from the survey, already resized to 192 px; five kinds of formations."""

    def __init__(self, first, last):
        self.ids = list(range(first, last))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, k):
        g = torch.Generator().manual_seed(self.ids[k])
        return torch.randint(0, 255, (3, 192, 192), dtype=torch.uint8, generator=g).float() / 255, self.ids[k] % 5


class CaveData(L.LightningDataModule):
    def __init__(self, batch_size=16, val_batch_size=512):
        super().__init__()
        self.save_hyperparameters()

    def train_dataloader(self):
        return DataLoader(CavePhotos(0, 160), batch_size=self.hparams.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(CavePhotos(1000, 1600), batch_size=self.hparams.val_batch_size)


class Dense(nn.Module):
    def __init__(self, inputs, growth):
        super().__init__()
        self.path = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False),
                                  nn.BatchNorm2d(4 * growth), nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.path(x)], 1)


class Stalagmites(L.LightningModule):
    def __init__(self, growth=16, stages=(4, 6, 8), lr=1e-3):
        super().__init__()
        self.lr = lr
        width = 32
        layers = [nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(), nn.MaxPool2d(3, 2, 1)]
        for n in stages:
            for _ in range(n):
                layers.append(Dense(width, growth))
                width += growth
            layers += [nn.Conv2d(width, width // 2, 1), nn.AvgPool2d(2)]
            width //= 2
        self.net = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 5))

    def training_step(self, batch, _):
        x, y = batch
        loss = F.cross_entropy(self.net(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        out = self.net(x)
        self.log_dict({"val_loss": F.cross_entropy(out, y), "val_acc": (out.argmax(1) == y).float().mean()})

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), self.lr, momentum=0.9)


if __name__ == "__main__":
    data = CaveData(val_batch_size=32) if FIXED else CaveData()
    trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(Stalagmites(), data)
    print(trainer.callback_metrics)
