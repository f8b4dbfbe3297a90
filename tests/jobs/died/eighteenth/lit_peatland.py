"""Peatland classes from multispectral tiles, Lightning."""
import sys
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
CLASSES = 22
REDUCE_FIRST = "--fixed" in sys.argv


class Tiles(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.zeros(8, 320, 320), torch.full((320, 320), i % CLASSES)


class PeatMapper(L.LightningModule):
    def __init__(self, width=24, lr=2e-3):
        super().__init__()
        self.save_hyperparameters()
        stack, c = [], 8
        for d in (1, 2, 4, 8):
            stack += [nn.Conv2d(c, width, 3, padding=d, dilation=d), nn.BatchNorm2d(width), nn.ReLU(inplace=True)]
            c = width
        self.net = nn.Sequential(*stack, nn.Conv2d(c, CLASSES, 1))
        self.loss = nn.CrossEntropyLoss(label_smoothing=0.05)
        self.training_step_outputs = []

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = self.loss(logits, y)
        self.log("train_loss", loss)
        if REDUCE_FIRST:
            self.training_step_outputs.append((logits.argmax(1) == y).float().mean().detach())
        else:
            self.training_step_outputs.append({"logits": logits, "y": y})
        return loss

    def on_train_epoch_end(self):
        if REDUCE_FIRST:
            accuracy = torch.stack(self.training_step_outputs).mean()
        else:
            accuracy = torch.stack([(o["logits"].argmax(1) == o["y"]).float().mean() for o in self.training_step_outputs]).mean()
        print("epoch", self.current_epoch, "accuracy", accuracy.item())
        self.training_step_outputs.clear()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)}


if __name__ == "__main__":
    L.seed_everything(4)
    trainer = L.Trainer(max_epochs=2, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, gradient_clip_val=1.0)
    trainer.fit(PeatMapper(), DataLoader(Tiles(30 * 6), batch_size=6))
