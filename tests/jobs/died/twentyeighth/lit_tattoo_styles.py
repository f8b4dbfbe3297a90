"""Linear probe of a ViT for styles of tattoos (Japanese, dotwork, blackwork, ...)."""
import sys

import lightning.pytorch as pl
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import MulticlassAccuracy
from transformers import ViTConfig, ViTModel


class TattooPhotos(Dataset):
    def __init__(self, n, n_styles):
        self.g, self.n, self.n_styles = torch.Generator().manual_seed(31), n, n_styles

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.randn(3, 224, 224, generator=self.g), i % self.n_styles


class StyleProbe(pl.LightningModule):
    def __init__(self, n_styles, lr=1e-3, freeze=False):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = ViTModel(ViTConfig(hidden_size=384, num_hidden_layers=12, num_attention_heads=6, intermediate_size=1536),
                                add_pooling_layer=False)
        if freeze:
            self.encoder.requires_grad_(False)
        self.head = nn.Sequential(nn.LayerNorm(384), nn.Linear(384, n_styles))
        self.accuracy = MulticlassAccuracy(n_styles, validate_args=False)

    def forward(self, pixels):
        return self.head(self.encoder(pixel_values=pixels).last_hidden_state[:, 0])

    def training_step(self, batch, batch_idx):
        pixels, style = batch
        logits = self(pixels)
        self.accuracy(logits, style)
        self.log("train_acc", self.accuracy, on_step=False, on_epoch=True)
        return nn.functional.cross_entropy(logits, style)

    def configure_optimizers(self):
        optimizer = torch.optim.SGD(self.head.parameters(), lr=self.hparams.lr, momentum=0.9)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 5)}


if __name__ == "__main__":
    pl.seed_everything(31)
    probe = StyleProbe(14, freeze="--fixed" in sys.argv)
    trainer = pl.Trainer(accelerator="gpu", devices=1, max_epochs=2, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                         enable_model_summary=False)
    trainer.fit(probe, DataLoader(TattooPhotos(128, 14), batch_size=32))
    print(trainer.callback_metrics)
