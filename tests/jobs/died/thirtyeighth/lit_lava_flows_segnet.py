"""Segments drone images of lava fields into 12 surface types (aa, pahoehoe, ash, moss, ...). Lightning module with mIoU at the end of an epoch."""
import sys

import lightning as L
import torch
import torch.nn.functional as F
from torch import nn

NUM_TYPES = 12


class LavaData(L.LightningDataModule):
    def __init__(self, batch_size=6, size=320):
        super().__init__()
        self.batch_size, self.size = batch_size, size

    def setup(self, stage=None):
        g = torch.Generator().manual_seed(79)
        images = torch.rand(24, 3, self.size, self.size, generator=g)
        types = torch.randint(0, NUM_TYPES, (24, self.size, self.size), generator=g)
        self.train = torch.utils.data.ConcatDataset([torch.utils.data.TensorDataset(images, types)] * 8)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(self.train, batch_size=self.batch_size, shuffle=True)


class SegNet(L.LightningModule):
    def __init__(self, compact="--fixed" in sys.argv):
        super().__init__()
        self.compact = compact
        chans = [3, 24, 48, 64]
        self.enc = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.BatchNorm2d(b), nn.ReLU(True)) for a, b in zip(chans, chans[1:]))
        back = [64, 48, 24, NUM_TYPES]
        self.dec = nn.ModuleList(nn.Conv2d(a, b, 3, padding=1) for a, b in zip(back, back[1:]))
        self.training_step_outputs = []

    def forward(self, x):
        places = []
        for layer in self.enc:
            x, where = F.max_pool2d(layer(x), 2, return_indices=True)
            places.append(where)
        for layer, where in zip(self.dec, reversed(places)):
            x = layer(F.max_unpool2d(x, where, 2))
        return x

    def training_step(self, batch, batch_idx):
        image, kinds = batch
        logits = self(image)
        loss = F.cross_entropy(logits, kinds)
        if self.compact:
            self.training_step_outputs.append(self.overlap(logits.detach(), kinds))
        else:
            self.training_step_outputs.append((logits, kinds))
        return loss

    @staticmethod
    def overlap(logits, kinds):
        guess = logits.argmax(1)
        both = torch.stack([((guess == k) & (kinds == k)).sum() for k in range(NUM_TYPES)])
        any_ = torch.stack([((guess == k) | (kinds == k)).sum() for k in range(NUM_TYPES)])
        return both, any_

    def on_train_epoch_end(self):
        parts = self.training_step_outputs if self.compact else [self.overlap(*o) for o in self.training_step_outputs]
        both, any_ = (sum(p) for p in zip(*parts))
        print("epoch", self.current_epoch, "mIoU", float((both / (any_ + 1)).mean()))
        self.training_step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    L.seed_everything(5)
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False)
    trainer.fit(SegNet(), LavaData())
