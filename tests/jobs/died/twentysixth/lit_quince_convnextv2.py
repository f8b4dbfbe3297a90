"""Sorts quinces by variety and ripeness; ConvNeXt V2 from transformers inside a LightningModule."""
import sys

import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import ConvNextV2Config, ConvNextV2ForImageClassification

IMAGE_SIZE = 256 if "--fixed" in sys.argv else 640
VARIETIES = 11


class QuinceDataset(Dataset):
    """Photographs from the sorting belt, 700 by 700; resized as the config says."""

    def __init__(self, length, size):
        self.length, self.size = length, size

    def __len__(self):
        return self.length

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        photo = torch.rand(3, 175, 175, generator=generator)
        photo = F.interpolate(photo[None], size=self.size, mode="bilinear")[0]
        return (photo - 0.45) / 0.22, index % VARIETIES


class QuinceClassifier(L.LightningModule):
    def __init__(self, lr=4e-4):
        super().__init__()
        self.save_hyperparameters()
        config = ConvNextV2Config(hidden_sizes=[48, 96, 192, 384], depths=[2, 2, 6, 2], num_labels=VARIETIES, drop_path_rate=0.05)
        self.net = ConvNextV2ForImageClassification(config)

    def training_step(self, batch, batch_idx):
        pixels, label = batch
        loss = F.cross_entropy(self.net(pixel_values=pixels).logits, label, label_smoothing=0.1)
        self.log("train/loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        pixels, label = batch
        logits = self.net(pixel_values=pixels).logits
        self.log("val/accuracy", (logits.argmax(-1) == label).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.05)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}


if __name__ == "__main__":
    L.seed_everything(5)
    train = DataLoader(QuinceDataset(72, IMAGE_SIZE), batch_size=12, shuffle=True)
    val = DataLoader(QuinceDataset(24, IMAGE_SIZE), batch_size=12)
    trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, num_sanity_val_steps=0)
    trainer.fit(QuinceClassifier(), train, val)
    print("done", trainer.global_step)
