"""Nowcast of the wind over a park of turbines on a grid, in Lightning."""
import logging
import sys
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore")
HOURS_IN, HOURS_OUT, GRID = 8, 24, 144


class WindMaps(Dataset):
    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 10000 + i)
        coarse = torch.randn(1, HOURS_IN + HOURS_OUT, 12, 12, generator=g)
        maps = nn.functional.interpolate(coarse, size=(GRID, GRID), mode="bilinear")[0]
        return maps[:HOURS_IN], maps[HOURS_IN:]


class WindNowcast(L.LightningModule):
    def __init__(self, width=40):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(nn.Conv2d(HOURS_IN, width, 5, padding=2), nn.GELU(), nn.Conv2d(width, width, 5, padding=2), nn.GELU(),
                                 nn.Conv2d(width, width, 5, padding=2), nn.GELU(), nn.Conv2d(width, HOURS_OUT, 1))
        self.outputs = []

    def forward(self, past):
        return self.net(past)

    def training_step(self, batch, batch_idx):
        past, future = batch
        pred = self(past)
        loss = nn.functional.huber_loss(pred, future)
        self.log("train_loss", loss)
        if "--fixed" in sys.argv:
            error = (pred.detach() - future).abs().mean((0, 2, 3)).cpu()
            self.outputs.append({"loss": loss.item(), "by_hour": error})
        else:
            self.outputs.append({"loss": loss, "pred": pred, "future": future})
        return loss

    def on_train_epoch_end(self):
        loss = sum(float(o["loss"]) for o in self.outputs) / len(self.outputs)
        if "--fixed" in sys.argv:
            hours = torch.stack([o["by_hour"] for o in self.outputs]).mean(0)
        else:
            hours = torch.stack([(o["pred"] - o["future"]).abs().mean((0, 2, 3)) for o in self.outputs]).mean(0)
        print("epoch", self.current_epoch, "loss", loss, "hours", len(hours))
        self.outputs.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    trainer = L.Trainer(max_epochs=2, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    trainer.fit(WindNowcast(), DataLoader(WindMaps(448, 1), batch_size=16, shuffle=True))
