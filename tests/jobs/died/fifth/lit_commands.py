"""Recognises spoken commands with a Lightning module; a confusion table is made of the validation outputs at the end of the run."""
import sys

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = "--fixed" in sys.argv
COMMANDS = 12


class Commands(L.LightningModule):
    def __init__(self, width=96, rate=1e-3):
        super().__init__()
        self.rate = rate
        layers, inner = [], 1
        for k in range(4):
            layers += [nn.Conv1d(inner, width, 9, 4 if k == 0 else 2, 4), nn.BatchNorm1d(width), nn.ReLU()]
            inner = width
        self.body = nn.Sequential(*layers)
        self.head = nn.Linear(width, COMMANDS)
        self.criterion = nn.CrossEntropyLoss()
        self.outputs = []

    def forward(self, wave):
        frames = self.body(wave).transpose(1, 2)
        return frames, self.head(frames.mean(1))

    def training_step(self, batch, _):
        wave, command = batch
        loss = self.criterion(self(wave)[1], command)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        wave, command = batch
        frames, logits = self(wave)
        self.log("val_loss", self.criterion(logits, command), prog_bar=False)
        self.outputs.append({"frames": frames, "logits": logits, "command": command})

    def on_validation_epoch_end(self):
        found = torch.cat([o["logits"] for o in self.outputs]).argmax(-1)
        truth = torch.cat([o["command"] for o in self.outputs])
        energy = max(o["frames"].abs().mean().item() for o in self.outputs)
        self.print("epoch", self.current_epoch, "accuracy", (found == truth).float().mean().item(), "energy", energy)
        if FIXED:
            self.outputs.clear()

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.rate)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2)}


def recordings(n, batch):
    return DataLoader(TensorDataset(torch.zeros(n, 1, 16000), torch.arange(n) % COMMANDS), batch_size=batch)


trainer = L.Trainer(max_epochs=6, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False, num_sanity_val_steps=0)
trainer.fit(Commands(), recordings(256, 32), recordings(320, 32))
