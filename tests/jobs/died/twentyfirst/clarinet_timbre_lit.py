"""Timbre of clarinet recordings, a 1-D ConvNet in Lightning; a callback of ours prints how many units of each layer are dead."""
import sys

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class DeadUnits(L.Callback):
    def __init__(self):
        self.seen = {}

    def setup(self, trainer, pl_module, stage):
        for name, module in pl_module.named_modules():
            if isinstance(module, nn.ReLU):
                self.seen[name] = []
                module.register_forward_hook(self.make_hook(name))

    def make_hook(self, name):
        def hook(module, inputs, output):
            if not module.training:
                return
            if "--fixed" in sys.argv:
                output = (output > 0).any(-1).any(0).unsqueeze(0).unsqueeze(-1)
            self.seen[name].append(output.detach())
        return hook

    def on_train_epoch_end(self, trainer, pl_module):
        for name, outputs in self.seen.items():
            alive = torch.stack([(o > 0).any(-1).any(0) for o in outputs]).any(0)
            print(name, "dead", int((~alive).sum()), "of", alive.numel())
            outputs.clear()


class Timbre(L.LightningModule):
    def __init__(self, classes=12):
        super().__init__()
        widths = [1, 16, 32, 64, 64]
        blocks = []
        for a, b in zip(widths, widths[1:]):
            blocks.append(nn.Sequential(nn.Conv1d(a, b, 9, stride=2, padding=4), nn.BatchNorm1d(b), nn.ReLU()))
        self.features = nn.Sequential(*blocks)
        self.head = nn.Linear(widths[-1], classes)
        self.loss = nn.CrossEntropyLoss()

    def training_step(self, batch, batch_idx):
        wave, label = batch
        loss = self.loss(self.head(self.features(wave).mean(-1)), label)
        self.log("loss", loss)
        return loss

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=2e-3)
        return [opt], [torch.optim.lr_scheduler.ExponentialLR(opt, 0.9)]


def recordings(n=384):
    g = torch.Generator().manual_seed(440)
    return TensorDataset(torch.randn(n, 1, 16000, generator=g), torch.randint(0, 12, (n,), generator=g))


trainer = L.Trainer(max_epochs=2, accelerator="gpu", devices=1, callbacks=[DeadUnits()], logger=False, enable_checkpointing=False,
                    enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Timbre(), DataLoader(recordings(), batch_size=24, shuffle=True))
