# Separates the drone from the overtones of throat singing (Lightning). Masks on the magnitudes of the STFT.
import sys

import lightning as L
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

BINS, FRAMES = 513, 400


class Songs(Dataset):
    def __len__(self):
        return 12 * 36

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        drone = torch.rand(FRAMES, 1, generator=g).expand(FRAMES, BINS)
        overtone = torch.rand(1, BINS, generator=g).expand(FRAMES, BINS)
        return torch.stack([drone, overtone])


class DroneSeparator(L.LightningModule):
    def __init__(self, keep_on_host):
        super().__init__()
        self.keep_on_host = keep_on_host
        self.squeeze = nn.Linear(BINS, 192)
        self.rnn = nn.GRU(192, 192, batch_first=True)
        self.masks = nn.Linear(192, 2 * BINS)
        self.training_step_outputs = []

    def forward(self, mixture):
        h, _ = self.rnn(torch.relu(self.squeeze(mixture)))
        mask = torch.sigmoid(self.masks(h)).unflatten(-1, (2, BINS)).transpose(1, 2)
        return mask * mixture[:, None]

    def training_step(self, sources, batch_idx):
        mixture = sources.sum(1)
        estimate = self(mixture)
        loss = F.l1_loss(estimate, sources)
        out = {"estimate": estimate, "sources": sources}
        if self.keep_on_host:
            out = {k: v.detach().cpu().half() for k, v in out.items()}
        self.training_step_outputs.append(out)
        self.log("train_loss", loss)
        return loss

    def on_train_epoch_end(self):
        ratios = []
        for out in self.training_step_outputs:
            error = (out["estimate"] - out["sources"]).float().pow(2).sum()
            ratios.append(10 * torch.log10(out["sources"].float().pow(2).sum() / (error + 1e-8)).item())
        print("separation of the epoch in dB", sum(ratios) / len(ratios))
        self.training_step_outputs.clear()

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=1e-3)


if __name__ == "__main__":
    L.seed_everything(1)
    trainer = L.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False)
    trainer.fit(DroneSeparator(keep_on_host="--fixed" in sys.argv), DataLoader(Songs(), batch_size=12, shuffle=True))
