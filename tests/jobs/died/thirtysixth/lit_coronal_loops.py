"""Segmentation of coronal loops in extreme ultraviolet images (SDO/AIA, 6 channels) with Lightning."""
import sys
import warnings

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

warnings.filterwarnings("ignore")
FIXED = "--fixed" in sys.argv
CLASSES = 5     # background, loop, open field, filament, flare ribbon


class LoopSegmenter(L.LightningModule):
    def __init__(self, width=32):
        super().__init__()
        dilations = [1, 2, 4, 8, 4, 2]
        self.stem = nn.Conv2d(6, width, 3, padding=1)
        self.body = nn.ModuleList(nn.Sequential(nn.Conv2d(width, width, 3, padding=d, dilation=d), nn.BatchNorm2d(width), nn.ReLU())
                                  for d in dilations)
        self.head = nn.Conv2d(width, CLASSES, 1)
        self.validation_step_outputs = []

    def forward(self, x):
        x = self.stem(x)
        for block in self.body:
            x = x + block(x)
        return self.head(x)

    def training_step(self, batch, _):
        image, mask = batch
        loss = F.cross_entropy(self(image), mask)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, _):
        image, mask = batch
        logits = self(image)
        self.log("val_loss", F.cross_entropy(logits, mask))
        out = {"prob": logits.softmax(1), "mask": mask}
        if FIXED:
            out = {k: v.cpu() for k, v in out.items()}
        self.validation_step_outputs.append(out)

    def on_validation_epoch_end(self):
        """Reliability: confidence against accuracy over all pixels of the validation images."""
        confidence, hit = [], []
        for out in self.validation_step_outputs:
            top, label = out["prob"].max(1)
            confidence.append(top.mean())
            hit.append((label == out["mask"]).float().mean())
        gap = (torch.stack(confidence) - torch.stack(hit)).abs().mean()
        self.log("calibration_gap", gap.to(self.device))
        self.validation_step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


def images(count, side):
    g = torch.Generator().manual_seed(count)
    return TensorDataset(torch.rand(count, 6, side, side, generator=g), torch.randint(0, CLASSES, (count, side, side), generator=g))


if __name__ == "__main__":
    L.seed_everything(2, verbose=False)
    trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False, enable_model_summary=False,
                        enable_progress_bar=False, num_sanity_val_steps=0)
    trainer.fit(LoopSegmenter(), DataLoader(images(24, 128), batch_size=4, shuffle=True), DataLoader(images(160, 384), batch_size=4))
    print({k: float(v) for k, v in trainer.callback_metrics.items()})
