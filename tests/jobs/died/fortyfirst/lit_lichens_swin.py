"""Lichens on bark as a measure of clean air: a new head on a Swin, with Lightning."""
import sys

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from transformers import SwinConfig, SwinModel

FIXED = "--fixed" in sys.argv


class Bark(Dataset):
    """Pictures of bark with the count of each of 12 lichens."""

    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.rand(3, 224, 224, generator=g), torch.randint(0, 20, (12,), generator=g).float()


class LichenCounter(L.LightningModule):
    """The backbone came from another institute and stays as it is; only the head is ours."""

    def __init__(self, lr=1e-3):
        super().__init__()
        self.lr = lr
        config = SwinConfig(image_size=224, embed_dim=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24], drop_path_rate=0.0)
        self.backbone = SwinModel(config)
        if FIXED:
            self.backbone.requires_grad_(False)
        self.head = nn.Sequential(nn.LayerNorm(768), nn.Linear(768, 256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, 12))
        self.loss = nn.PoissonNLLLoss()

    def forward(self, pictures):
        return self.head(self.backbone(pixel_values=pictures).pooler_output)

    def training_step(self, batch, index):
        pictures, counts = batch
        loss = self.loss(self(pictures), counts)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, index):
        pictures, counts = batch
        self.log("error", (self(pictures).exp() - counts).abs().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.head.parameters(), lr=self.lr)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 4)}


def main():
    L.seed_everything(20)
    trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(LichenCounter(), DataLoader(Bark(96), batch_size=24, shuffle=True), DataLoader(Bark(24), batch_size=24))


if __name__ == "__main__":
    main()
