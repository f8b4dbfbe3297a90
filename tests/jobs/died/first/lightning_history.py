"""A denoising autoencoder with Lightning that collects predictions in training_step to show them at the end of the epoch.

https://github.com/TRI-ML/packnet-sfm/issues/47
"""
import argparse

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
hparams = parser.parse_args()


class Denoiser(L.LightningModule):
    def __init__(self):
        super().__init__()
        sizes = (3, 32, 64, 128, 256)
        down = [nn.Sequential(nn.Conv2d(a, b, 4, 2, 1), nn.GroupNorm(8, b), nn.SiLU()) for a, b in zip(sizes, sizes[1:])]
        up = [nn.Sequential(nn.ConvTranspose2d(b, a, 4, 2, 1), nn.SiLU() if a > 3 else nn.Identity()) for a, b in zip(sizes, sizes[1:])]
        self.net = nn.Sequential(*down, *reversed(up))
        self.outputs = []

    def training_step(self, batch, batch_idx):
        clean, = batch
        noisy = clean + 0.1 * torch.randn_like(clean)
        restored = self.net(noisy)
        loss = (restored - clean).abs().mean()
        output = {"loss": loss, "input": noisy, "prediction": restored}
        if hparams.fixed:
            output = {"loss": loss.detach(), "input": noisy[:1].cpu(), "prediction": restored[:1].detach().cpu()}
        self.outputs.append(output)
        return loss

    def on_train_epoch_end(self):
        print("mean loss", float(sum(o["loss"].detach() for o in self.outputs)) / len(self.outputs))
        self.outputs.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 2e-4)


data = TensorDataset(torch.zeros(576, 3, 256, 256))
trainer = L.Trainer(max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
trainer.fit(Denoiser(), DataLoader(data, batch_size=32))
