"""Which block is this quilt made of? (log cabin, flying geese, ...) A linear head on DINOv2 features, in Lightning."""
import sys

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import Dinov2Config, Dinov2Model

FIXED = "--fixed" in sys.argv


class QuiltPhotos(Dataset):
    def __init__(self, n=240):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.full((3, 224, 224), (i % 17) / 17), i % 17


class QuiltClassifier(pl.LightningModule):
    def __init__(self, n_blocks=17, lr=3e-3):
        super().__init__()
        self.save_hyperparameters()
        config = Dinov2Config(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, image_size=224, patch_size=14)
        self.backbone = Dinov2Model(config)
        if FIXED:
            self.backbone.requires_grad_(False)
        self.norm = nn.LayerNorm(768)
        self.head = nn.Linear(768, n_blocks)

    def features(self, x):
        tokens = self.backbone(pixel_values=x).last_hidden_state
        return torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], -1)

    def forward(self, x):
        return self.head(self.norm(self.features(x)))

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = nn.functional.cross_entropy(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_loss", nn.functional.cross_entropy(self(x), y))

    def configure_optimizers(self):
        # only the head is trained
        opt = torch.optim.AdamW(list(self.norm.parameters()) + list(self.head.parameters()), lr=self.hparams.lr)
        return {"optimizer": opt, "lr_scheduler": torch.optim.lr_scheduler.CosineAnnealingLR(opt, 10)}


if __name__ == "__main__":
    pl.seed_everything(8)
    trainer = pl.Trainer(max_epochs=1, accelerator="gpu", devices=1, precision="bf16-mixed", logger=False, enable_checkpointing=False,
                         enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(QuiltClassifier(), DataLoader(QuiltPhotos(), batch_size=48, shuffle=True), DataLoader(QuiltPhotos(96), batch_size=48))
    print("val loss", float(trainer.callback_metrics["val_loss"]))
