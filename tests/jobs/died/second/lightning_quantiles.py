"""Lightning module that forecasts quantiles for many shops; validation collects predictions to draw reliability curves.

After https://github.com/Lightning-AI/pytorch-lightning/issues/8453 and https://github.com/Lightning-AI/pytorch-lightning/pull/16520
"""
import sys
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore")


class Sales(Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return torch.full((512, 8), i / self.n), torch.full((512,), i / self.n)


class Forecaster(L.LightningModule):
    def __init__(self, on_host, width=512, horizon=512, quantiles=99):
        super().__init__()
        self.on_host = on_host
        self.register_buffer("q", torch.arange(1, quantiles + 1) / (quantiles + 1))
        self.shape = (horizon, quantiles)
        self.inputs = nn.Linear(8, width)
        layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, horizon * quantiles)
        self.collected = []

    def forward(self, x):
        return self.head(self.encoder(self.inputs(x)).mean(1)).view(-1, *self.shape)

    def loss(self, prediction, y):
        error = y.unsqueeze(-1) - prediction
        return torch.maximum(self.q * error, (self.q - 1) * error).mean()

    def training_step(self, batch, _):
        x, y = batch
        return self.loss(self(x), y)

    def validation_step(self, batch, _):
        x, y = batch
        prediction = self(x)
        self.collected.append(prediction.cpu() if self.on_host else prediction)
        self.log("val_loss", self.loss(prediction, y))

    def on_validation_epoch_end(self):
        below = sum((p[:, 0] < 0.5).float().mean(0).cpu() for p in self.collected) / len(self.collected)
        print("reliability", below[::20])
        self.collected.clear()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=1e-3)


trainer = L.Trainer(max_epochs=1, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                    enable_model_summary=False, num_sanity_val_steps=0)
trainer.fit(Forecaster("--fixed" in sys.argv), DataLoader(Sales(5 * 8), 8), DataLoader(Sales(176 * 32), 32))
