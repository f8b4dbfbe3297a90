"""Trains a DINOv2 backbone with a linear head on microscope slides, which were cropped generously so as to lose nothing.
"""
import sys

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset
from transformers import Dinov2Config, Dinov2Model

FIXED = "--fixed" in sys.argv
CROP = 224 if FIXED else 896


class Slides(Dataset):
    """Crops of slides, and the kind of tissue."""

    def __init__(self, n, crop, kinds=5):
        self.n, self.crop, self.kinds = n, crop, kinds

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        return torch.full((3, self.crop, self.crop), k / self.n), k % self.kinds


class Classifier(nn.Module):
    def __init__(self, kinds=5):
        super().__init__()
        self.backbone = Dinov2Model(Dinov2Config(image_size=224, patch_size=14, hidden_size=192, num_hidden_layers=8, num_attention_heads=3))
        self.head = nn.Sequential(nn.LayerNorm(384), nn.Linear(384, kinds))

    def forward(self, pixels):
        tokens = self.backbone(pixel_values=pixels).last_hidden_state
        return self.head(torch.cat([tokens[:, 0], tokens[:, 1:].mean(1)], -1))


def groups(model, lr):
    """The backbone learns ten times slower than the head."""
    return [{"params": model.backbone.parameters(), "lr": lr / 10}, {"params": model.head.parameters(), "lr": lr}]


def main():
    device = "cuda"
    model = Classifier().to(device)
    optimizer = torch.optim.AdamW(groups(model, 1e-3), weight_decay=0.05)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
    loader = DataLoader(Slides(24, CROP), batch_size=6, drop_last=True)
    for epoch in range(1):
        for n, (pixels, kinds) in enumerate(loader):
            with torch.autocast(device, dtype=torch.bfloat16):
                loss = criterion(model(pixels.to(device)), kinds.to(device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print("epoch", epoch, "batch", n, "loss", loss.item())


if __name__ == "__main__":
    main()
