"""Enlarges pictures of old films fourfold with a Lightning module."""
import argparse

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __init__(self, n, patch):
        self.n, self.patch = n, patch

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        large = torch.full((3, 4 * self.patch, 4 * self.patch), k / self.n)
        return F.avg_pool2d(large, 4), large


class Attention(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.net = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, width // 8, 1), nn.ReLU(), nn.Conv2d(width // 8, width, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.net(x)


class Upscaler(L.LightningModule):
    def __init__(self, width=96, blocks=10):
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.PReLU(), nn.Conv2d(width, width, 3, padding=1),
                                                  Attention(width)) for _ in range(blocks))
        self.enlarge = nn.Sequential(nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(),
                                     nn.Conv2d(width, 4 * width, 3, padding=1), nn.PixelShuffle(2), nn.PReLU(), nn.Conv2d(width, 3, 3, padding=1))

    def forward(self, small):
        x = self.first(small)
        for block in self.blocks:
            x = x + block(x)
        return self.enlarge(x)

    def training_step(self, batch, _):
        small, large = batch
        loss = F.l1_loss(self(small), large)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        small, large = batch
        self.log("psnr", -10 * torch.log10(F.mse_loss(self(small), large)))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-4)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--patch", type=int, default=64)
    options = parser.parse_args()
    trainer = L.Trainer(max_epochs=2, accelerator="gpu", devices=1, precision="bf16-mixed" if options.fixed else "32-true", logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, gradient_clip_val=1.0)
    train, val = Frames(40, options.patch), Frames(8, options.patch)
    trainer.fit(Upscaler(), DataLoader(train, batch_size=8), DataLoader(val, batch_size=4))
    print({k: v.item() for k, v in trainer.callback_metrics.items()})


main()
