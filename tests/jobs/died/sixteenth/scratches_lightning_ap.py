"""Finds scratches on watch glasses, pixel by pixel; Lightning module with average precision over the validation set."""
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import BinaryAveragePrecision


class Glasses(Dataset):
    def __init__(self, n, side=256):
        self.n, self.side = n, side

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        image = torch.rand(1, self.side, self.side, generator=g)
        return image, (image > 0.98).long()


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.SiLU())


class ScratchNet(L.LightningModule):
    def __init__(self, width=16):
        super().__init__()
        self.enc1, self.enc2 = block(1, width), block(width, 2 * width)
        self.dec, self.out = block(3 * width, width), nn.Conv2d(width, 1, 1)
        self.val_ap = BinaryAveragePrecision(validate_args=False, compute_on_cpu="--fixed" in sys.argv)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        return self.out(self.dec(torch.cat([a, F.interpolate(b, scale_factor=2.0)], 1)))

    def training_step(self, batch, _):
        image, mask = batch
        loss = F.binary_cross_entropy_with_logits(self(image), mask.float())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        image, mask = batch
        self.val_ap.update(self(image).sigmoid().flatten(), mask.flatten())

    def on_validation_epoch_end(self):
        self.log("val_ap", self.val_ap.compute())
        self.val_ap.reset()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False, num_sanity_val_steps=0)
trainer.fit(ScratchNet(), DataLoader(Glasses(48), batch_size=4), DataLoader(Glasses(480), batch_size=12))
print({k: float(v) for k, v in trainer.callback_metrics.items()})
