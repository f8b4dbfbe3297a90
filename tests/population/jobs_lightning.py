"""Lightning's Trainer."""
import logging
import warnings

import lightning
import torch

from core import job
from jobs_trainers import LightningBase, Rows

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")


class LitModel(lightning.LightningModule):
    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], own.make()

    def training_step(self, batch, batch_idx):
        return self.own[0].loss(batch)

    def validation_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log("val_loss", loss)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, fused=self.own[0].fused)


@job("lightning", "lightning", "lightning", "forward", "tokens", "decoder", "layers", "attention", "checkpointing", "states")
class Lightning(LightningBase):
    def build(self):
        self.module = LitModel(self)
        self.model = self.module.model
        loader = torch.utils.data.DataLoader(Rows(self.rows * self.size, self.length), batch_size=self.size)
        self.loaders = loader, torch.utils.data.DataLoader(Rows(2 * self.size, self.length), batch_size=self.size)
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "logger": False, "enable_checkpointing": False,
                                            "enable_progress_bar": False, "enable_model_summary": False, "val_check_interval": 2,
                                            "num_sanity_val_steps": 0, "callbacks": self.callbacks, **self.trainer_arguments})

    def train(self):
        self.trainer.fit(self.module, *self.loaders)
