"""Classifies plankton with a ConvNeXt in Lightning; a callback keeps averaged weights, as competition winners do."""
import copy
import logging
import sys

import lightning as L
import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import ConvNextConfig, ConvNextForImageClassification

FIXED = "--fixed" in sys.argv
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Average(L.Callback):
    """Exponential moving average, and the averages of the ends of the last epochs for stochastic weight averaging."""

    def __init__(self, decays=(0.999, 0.9995, 0.9999)):
        self.decays, self.copies = decays, None

    def on_train_start(self, trainer, module):
        self.copies = [copy.deepcopy(module.net).requires_grad_(False) for _ in self.decays]
        if FIXED:
            self.copies = [c.cpu() for c in self.copies]

    @torch.no_grad()
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        for decay, copied in zip(self.decays, self.copies):
            for mean, now in zip(copied.parameters(), module.net.parameters()):
                mean.lerp_(now.detach().to(mean.device), 1 - decay)


class Plankton(L.LightningModule):
    def __init__(self, classes=40):
        super().__init__()
        self.net = ConvNextForImageClassification(ConvNextConfig(depths=[2, 2, 4, 2], hidden_sizes=[96, 192, 384, 768], num_labels=classes))

    def training_step(self, batch, batch_idx):
        images, labels = batch
        loss = self.net(pixel_values=images, labels=labels).loss
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3, weight_decay=0.05)


def main():
    data = TensorDataset(torch.zeros(32, 3, 96, 96), torch.randint(0, 40, (32,)))
    trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, callbacks=[Average()])
    trainer.fit(Plankton(), DataLoader(data, batch_size=8))
    print("done", trainer.global_step)


main()
