"""Segments roads in aerial images with a SegFormer under Lightning; a precision-recall curve of each epoch comes from torchmetrics."""
import sys

import lightning as L
import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import BinaryPrecisionRecallCurve
from transformers import SegformerConfig, SegformerForSemanticSegmentation

SETTINGS = {"compute_on_cpu": True} if "--fixed" in sys.argv else {}


class Aerial(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        return torch.zeros(3, 256, 256), torch.full((256, 256), float(k % 2))


class Roads(L.LightningModule):
    def __init__(self):
        super().__init__()
        config = SegformerConfig(num_labels=1, depths=[2, 2, 2, 2], hidden_sizes=[16, 32, 80, 128], decoder_hidden_size=64, sr_ratios=[8, 4, 2, 1])
        self.net = SegformerForSemanticSegmentation(config)
        self.curve = BinaryPrecisionRecallCurve(thresholds=None, validate_args=False, **SETTINGS)

    def forward(self, images):
        logits = self.net(pixel_values=images).logits
        return F.interpolate(logits, size=images.shape[-2:], mode="bilinear", align_corners=False)[:, 0]

    def training_step(self, batch, _):
        images, roads = batch
        loss = F.binary_cross_entropy_with_logits(self(images), roads)
        self.log("loss", loss)
        return loss

    def validation_step(self, batch, _):
        images, roads = batch
        self.curve.update(self(images).sigmoid(), roads.int())

    def on_validation_epoch_end(self):
        print("pixels", sum(p.numel() for p in self.curve.preds))  # the curve itself is drawn by another script
        self.curve.reset()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=6e-5)


def main():
    L.seed_everything(2)
    trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=2, num_sanity_val_steps=0, logger=False, enable_checkpointing=False,
                        enable_progress_bar=False)
    trainer.fit(Roads(), DataLoader(Aerial(16), batch_size=2), DataLoader(Aerial(640), batch_size=8))


main()
