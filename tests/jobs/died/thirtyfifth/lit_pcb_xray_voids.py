"""Finds voids in solder joints on X-ray images of circuit boards (Lightning). The validation reports how well scores are calibrated."""
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics import Metric


class Boards(Dataset):
    def __init__(self, n, side=512):
        self.n, self.side = n, side

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.rand(1, self.side, self.side, generator=g)
        return image, (image > 0.97).long()


class VoidCalibration(Metric):
    """Expected calibration error over all pixels."""

    def __init__(self, bins=15):
        super().__init__()
        self.bins = bins
        self.add_state("scores", default=[], dist_reduce_fx="cat")
        self.add_state("labels", default=[], dist_reduce_fx="cat")

    def update(self, scores, labels):
        self.scores.append(scores.flatten())
        self.labels.append(labels.flatten())

    def compute(self):
        error, total = 0.0, 0
        for scores, labels in zip(self.scores, self.labels):
            for low in torch.linspace(0, 1, self.bins + 1)[:-1]:
                inside = ((scores > low) & (scores <= low + 1 / self.bins)).float()
                error = error + ((scores - labels) * inside).sum().abs()
            total += scores.numel()
        return error / total


class BinnedCalibration(VoidCalibration):
    def __init__(self, bins=15):
        super().__init__(bins)
        self.add_state("gap", default=torch.zeros(()), dist_reduce_fx="sum")
        self.add_state("pixels", default=torch.zeros(()), dist_reduce_fx="sum")

    def update(self, scores, labels):
        for low in torch.linspace(0, 1, self.bins + 1)[:-1]:
            inside = ((scores > low) & (scores <= low + 1 / self.bins)).float()
            self.gap += ((scores - labels) * inside).sum().abs()
        self.pixels += scores.numel()

    def compute(self):
        return self.gap / self.pixels


class VoidFinder(L.LightningModule):
    def __init__(self, width=24):
        super().__init__()
        layers, before = [], 1
        for step in (1, 2, 1, 2, 1):
            layers += [nn.Conv2d(before, width, 3, stride=step, padding=1), nn.GroupNorm(4, width), nn.SiLU()]
            before = width
        self.net = nn.Sequential(*layers, nn.Conv2d(width, 16, 1), nn.PixelShuffle(4))
        self.calibration = BinnedCalibration() if "--fixed" in sys.argv else VoidCalibration()

    def training_step(self, batch, _):
        image, void = batch
        loss = F.binary_cross_entropy_with_logits(self.net(image), void.float())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        image, void = batch
        score = self.net(image).sigmoid()
        self.calibration.update(score, void)
        self.log("val_ece", self.calibration, on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    num_sanity_val_steps=0)
trainer.fit(VoidFinder(), DataLoader(Boards(24), batch_size=4), DataLoader(Boards(480), batch_size=4))
