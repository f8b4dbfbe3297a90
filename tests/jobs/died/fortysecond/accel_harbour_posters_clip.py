"""Dates posters of a harbour line by decade: a head on CLIP's vision tower, with Accelerate. Only the head is to learn."""
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import CLIPVisionConfig, CLIPVisionModel

FIXED = "--fixed" in sys.argv
DECADES = 11


class PosterDater(nn.Module):
    """CLIP's pooled output, and an ordinal head over the decades."""

    def __init__(self, config):
        super().__init__()
        self.tower = CLIPVisionModel(config)
        self.head = nn.Sequential(nn.LayerNorm(config.hidden_size), nn.Linear(config.hidden_size, 256), nn.GELU(), nn.Linear(256, DECADES - 1))
        if FIXED:
            self.tower.requires_grad_(False)

    def forward(self, pixels):
        return self.head(self.tower(pixel_values=pixels).pooler_output)


def later_than(decades):
    return (decades[:, None] > torch.arange(DECADES - 1, device=decades.device)).float()


def posters(n, seed):
    g = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.rand(n, 3, 224, 224, generator=g), torch.randint(0, DECADES, (n,), generator=g))


def main():
    accelerator = Accelerator(mixed_precision="bf16")
    torch.manual_seed(1900)
    config = CLIPVisionConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=8, image_size=224, patch_size=16)
    model = PosterDater(config)
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3, weight_decay=0.05)
    loader = DataLoader(posters(120, 0), batch_size=24, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    for epoch in range(2):
        total = 0.0
        for pixels, decades in loader:
            with accelerator.autocast():
                loss = nn.functional.binary_cross_entropy_with_logits(model(pixels), later_than(decades))
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
            total += loss.item()
        accelerator.print("epoch", epoch, "loss", total / len(loader))


if __name__ == "__main__":
    main()
