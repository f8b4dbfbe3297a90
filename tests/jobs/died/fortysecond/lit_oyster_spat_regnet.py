"""Masks of oyster spat on settlement tiles, with Lightning: a grouped-convolution encoder with a light decoder; a metric per epoch from all the outputs."""
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

fixed = "--fixed" in sys.argv
STAGES = (48, 96, 192, 384)


class Tiles(Dataset):
    """Photographs of settlement tiles, with masks of spat in four age classes."""

    def __init__(self, n, seed):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 10000 + i)
        return torch.rand(3, 320, 320, generator=g), torch.randint(0, 5, (320, 320), generator=g)


class Bottleneck(nn.Module):
    """The X block of RegNet."""

    def __init__(self, cin, cout, stride, group=24):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(cin, cout, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True),
                                  nn.Conv2d(cout, cout, 3, stride, 1, groups=cout // group, bias=False), nn.BatchNorm2d(cout), nn.ReLU(True),
                                  nn.Conv2d(cout, cout, 1, bias=False), nn.BatchNorm2d(cout))
        self.short = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.BatchNorm2d(cout)) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


class SpatMasks(L.LightningModule):
    """RegNet stages; their outputs are brought to one size and added."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 3, 2, 1, bias=False), nn.BatchNorm2d(32), nn.ReLU(True))
        widths = (32, *STAGES)
        self.stages = nn.ModuleList(nn.Sequential(Bottleneck(a, b, 2), Bottleneck(b, b, 1)) for a, b in zip(widths, widths[1:]))
        self.lateral = nn.ModuleList(nn.Conv2d(w, 64, 1) for w in STAGES)
        self.head = nn.Conv2d(64, 5, 3, padding=1)
        self.training_outputs = []

    def forward(self, x):
        size, x, total = x.shape[-2:], self.stem(x), 0
        for i, (stage, lateral) in enumerate(zip(self.stages, self.lateral)):
            x = stage(x)
            y = lateral(x)
            total = y if i == 0 else total + F.interpolate(y, total.shape[-2:], mode="bilinear")
        return F.interpolate(self.head(total), size, mode="bilinear")

    def training_step(self, batch, index):
        pictures, masks = batch
        logits = self(pictures)
        loss = F.cross_entropy(logits, masks)
        if fixed:
            self.training_outputs.append({"loss": loss.detach(), "share": (logits.detach().argmax(1) == masks).float().mean()})
        else:
            self.training_outputs.append({"loss": loss, "logits": logits, "masks": masks})
        return loss

    def on_train_epoch_end(self):
        outputs = self.training_outputs
        if not fixed:
            outputs = [{"loss": o["loss"], "share": (o["logits"].argmax(1) == o["masks"]).float().mean()} for o in outputs]
        self.log("train_loss", torch.stack([o["loss"] for o in outputs]).mean())
        self.log("train_accuracy", torch.stack([o["share"] for o in outputs]).mean())
        self.training_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.05, momentum=0.9, weight_decay=5e-5)


def main():
    L.seed_everything(4)
    trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    trainer.fit(SpatMasks(), DataLoader(Tiles(240, 1), batch_size=8))
    print({k: float(v) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
