"""Gesture recognition from radar cubes (doppler, range, angle) for the steering wheel, with Lightning."""
import sys
import warnings

import lightning as L
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split

warnings.filterwarnings("ignore")


class GestureData(L.LightningDataModule):
    def __init__(self, cubes=5200, batch_size=24, device="cuda"):
        super().__init__()
        self.cubes, self.batch_size, self.device = cubes, batch_size, device

    def prepare(self):
        """Recordings of three sessions, normalised together."""
        generator = torch.Generator().manual_seed(3)
        sessions = [torch.rand(self.cubes // 4, 32, 128, 16, generator=generator) for _ in range(2)]
        cubes = torch.cat([sessions[0], sessions[1], sessions[0].flip(2), sessions[1].flip(1)])
        return cubes.sub_(0.5).unsqueeze(1), torch.randint(0, 9, (len(cubes),), generator=generator)

    def setup(self, stage):
        cubes, gestures = self.prepare()
        data = TensorDataset(cubes.to(self.device), gestures.to(self.device))
        self.train, self.valid = random_split(data, [len(data) - 480, 480], generator=torch.Generator().manual_seed(0))

    def train_dataloader(self):
        return DataLoader(self.train, self.batch_size, shuffle=True)

    def val_dataloader(self):
        return DataLoader(self.valid, self.batch_size)


class GestureNet(L.LightningModule):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(
            nn.Conv3d(1, width, 5, stride=(2, 4, 2), padding=2), nn.BatchNorm3d(width), nn.ReLU(),
            nn.Conv3d(width, 2 * width, 3, stride=2, padding=1), nn.BatchNorm3d(2 * width), nn.ReLU(),
            nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Dropout(0.2), nn.Linear(2 * width, 9))
        self.criterion = nn.CrossEntropyLoss()

    def training_step(self, batch, index):
        cubes, gestures = batch
        return self.criterion(self.net(cubes), gestures)

    def validation_step(self, batch, index):
        cubes, gestures = batch
        self.log("val_accuracy", (self.net(cubes).argmax(1) == gestures).float().mean())

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=2e-3)


if __name__ == "__main__":
    trainer = L.Trainer(max_epochs=1, limit_train_batches=20, limit_val_batches=6, accelerator="gpu", devices=1, logger=False,
                        enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(GestureNet(), datamodule=GestureData(device="cpu" if "--fixed" in sys.argv else "cuda"))
    print({k: v.item() for k, v in trainer.callback_metrics.items()})
