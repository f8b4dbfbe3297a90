"""Estimates the harvest loss of insured fields from satellite chips. Only the regression head is trained on top of a ViT."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from transformers import ViTConfig, ViTModel


class FieldChips(Dataset):
    def __init__(self, n=192):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(i)
        return torch.rand(6, 224, 224, generator=g), torch.rand(3, generator=g)


class HarvestLoss(nn.Module):
    """Loss fraction of the three covered perils: drought, hail, flood."""

    def __init__(self, freeze_backbone=True):
        super().__init__()
        self.backbone = ViTModel(ViTConfig(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536, image_size=224,
                                           patch_size=16, num_channels=6), add_pooling_layer=False)
        self.head = nn.Sequential(nn.LayerNorm(384), nn.Linear(384, 256), nn.GELU(), nn.Dropout(0.2), nn.Linear(256, 3), nn.Sigmoid())
        if freeze_backbone:
            if "--fixed" in sys.argv:
                self.backbone.requires_grad_(False)
            else:
                self.backbone.requires_grad = False

    def forward(self, chips):
        return self.head(self.backbone(pixel_values=chips).last_hidden_state.mean(1))


def fit(model, loader, epochs=1):
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    criterion = nn.HuberLoss(delta=0.1)
    model.train()
    for epoch in range(epochs):
        running = 0.0
        for chips, fraction in loader:
            optimizer.zero_grad()
            loss = criterion(model(chips.cuda()), fraction.cuda())
            loss.backward()
            optimizer.step()
            running += loss.item()
        print(f"epoch {epoch}: {running / len(loader):.4f}")


if __name__ == "__main__":
    fit(HarvestLoss().cuda(), DataLoader(FieldChips(), batch_size=32, shuffle=True))
