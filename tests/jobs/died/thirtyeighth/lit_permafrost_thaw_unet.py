"""Thaw slumps in permafrost from Sentinel-2 scenes: U-Net in Lightning, average precision over all pixels of the validation scenes."""
import sys
import warnings

import lightning as L
import torch
import torch.nn as nn
from torchmetrics.classification import BinaryAveragePrecision

warnings.filterwarnings("ignore")
FIXED = "--fixed" in sys.argv


def double(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.GELU(),
                         nn.Conv2d(cout, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.GELU())


class Scenes(torch.utils.data.Dataset):
    def __init__(self, count, size):
        self.count, self.size = count, size

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        scene = torch.rand(6, self.size, self.size, generator=g)
        return scene, (scene.mean(0, keepdim=True) > 0.52).long()


class SlumpUNet(L.LightningModule):
    def __init__(self, bands=6, width=16, lr=1e-3):
        super().__init__()
        self.save_hyperparameters()
        self.d1, self.d2, self.d3 = double(bands, width), double(width, 2 * width), double(2 * width, 4 * width)
        self.u2, self.u1 = double(6 * width, 2 * width), double(3 * width, width)
        self.out = nn.Conv2d(width, 1, 1)
        self.pool, self.up = nn.MaxPool2d(2), nn.Upsample(scale_factor=2, mode="bilinear")
        self.val_ap = BinaryAveragePrecision(thresholds=50 if FIXED else None, validate_args=False)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(self.pool(a))
        c = self.d3(self.pool(b))
        b = self.u2(torch.cat([self.up(c), b], 1))
        return self.out(self.u1(torch.cat([self.up(b), a], 1)))

    def training_step(self, batch, _):
        x, y = batch
        loss = nn.functional.binary_cross_entropy_with_logits(self(x), y.float())
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        self.val_ap.update(self(x).sigmoid(), y)
        self.log("val_ap", self.val_ap, on_step=False, on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)


def loader(count, size, batch):
    return torch.utils.data.DataLoader(Scenes(count, size), batch_size=batch)


trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=1, num_sanity_val_steps=0, logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(SlumpUNet(), loader(40, 192, 8), loader(120, 512, 2))
print({k: float(v) for k, v in trainer.callback_metrics.items()})
