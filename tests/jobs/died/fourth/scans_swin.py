"""Grades mammography crops with a Swin transformer under Lightning; cosine schedule, label smoothing, accuracy on a validation set."""
import sys

import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from transformers import SwinConfig, SwinForImageClassification

BATCH = 24 if "--fixed" in sys.argv else 96


class Crops(Dataset):
    def __init__(self, n, size=224):
        self.n, self.size = n, size

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        generator = torch.Generator().manual_seed(k)
        return torch.zeros(3, self.size, self.size), torch.randint(0, 5, (), generator=generator)


class Grader(L.LightningModule):
    def __init__(self, lr=1e-4, steps=50):
        super().__init__()
        self.save_hyperparameters()
        config = SwinConfig(image_size=224, embed_dim=48, depths=[2, 2, 4, 2], num_heads=[2, 4, 8, 16], window_size=7, num_labels=5,
                            drop_path_rate=0.1)
        self.net = SwinForImageClassification(config)

    def training_step(self, batch, _):
        images, grades = batch
        loss = F.cross_entropy(self.net(pixel_values=images).logits, grades, label_smoothing=0.1)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        images, grades = batch
        logits = self.net(pixel_values=images).logits
        self.log("val_loss", F.cross_entropy(logits, grades), batch_size=len(grades))
        self.log("val_accuracy", (logits.argmax(-1) == grades).float().mean(), batch_size=len(grades))

    def configure_optimizers(self):
        decay = [p for p in self.parameters() if p.ndim > 1]
        rest = [p for p in self.parameters() if p.ndim <= 1]
        optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": rest, "weight_decay": 0.0}], lr=self.hparams.lr)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, self.hparams.steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main():
    L.seed_everything(11)
    trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=1, precision="bf16-mixed", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, num_sanity_val_steps=0, gradient_clip_val=5.0)
    trainer.fit(Grader(), DataLoader(Crops(384), batch_size=BATCH, shuffle=True, drop_last=True), DataLoader(Crops(48), batch_size=24))
    print({k: float(v) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
