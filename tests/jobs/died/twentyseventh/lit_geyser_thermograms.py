"""Lightning: autoencoder of thermal frames of a geyser basin; frames that it restores badly are looked at by the rangers."""
import logging
import sys
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
FIXED = "--fixed" in sys.argv


class Frames(Dataset):
    def __init__(self, count, side=320):
        self.count = count
        self.frame = torch.rand(1, side, side)

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        return self.frame.roll(i, 1)


class GeyserAE(L.LightningModule):
    def __init__(self, c=12):
        super().__init__()
        self.encoder = nn.Sequential(nn.Conv2d(1, c, 4, 2, 1), nn.ELU(), nn.Conv2d(c, 2 * c, 4, 2, 1), nn.ELU(), nn.Conv2d(2 * c, 16, 4, 2, 1))
        self.decoder = nn.Sequential(nn.ConvTranspose2d(16, 2 * c, 4, 2, 1), nn.ELU(), nn.ConvTranspose2d(2 * c, c, 4, 2, 1), nn.ELU(),
                                     nn.ConvTranspose2d(c, 1, 4, 2, 1))
        self.validation_step_outputs = []

    def forward(self, x):
        return self.decoder(self.encoder(x))

    def training_step(self, batch, _):
        return nn.functional.mse_loss(self(batch), batch)

    def validation_step(self, batch, _):
        restored = self(batch)
        residual = (restored - batch).abs()
        if FIXED:
            self.validation_step_outputs.append({"worst": residual.flatten(1).amax(1).cpu(), "mean": residual.flatten(1).mean(1).cpu()})
        else:
            self.validation_step_outputs.append({"frames": batch, "restored": restored, "residual": residual})

    def on_validation_epoch_end(self):
        outs = self.validation_step_outputs
        if FIXED:
            worst = torch.cat([o["worst"] for o in outs])
            mean = torch.cat([o["mean"] for o in outs])
        else:
            worst = torch.stack([o["residual"].flatten(1).amax(1) for o in outs]).flatten()
            mean = torch.stack([o["residual"].flatten(1).mean(1) for o in outs]).flatten()
        print("frames", len(worst), "worst residual", float(worst.max()), "mean", float(mean.mean()))
        outs.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 1e-3)


trainer = L.Trainer(max_epochs=2, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False, num_sanity_val_steps=0)
trainer.fit(GeyserAE(), DataLoader(Frames(80), batch_size=8, shuffle=True), DataLoader(Frames(2560), batch_size=32))
