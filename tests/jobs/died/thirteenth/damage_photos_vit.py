"""Fine-tunes a ViT that reads damage photographs for an insurer; the launcher's configuration decides the precision."""
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import ViTConfig, ViTModel

PRECISION = "bf16" if "--fixed" in sys.argv else "no"


class Damage(nn.Module):
    def __init__(self):
        super().__init__()
        config = ViTConfig(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536, image_size=224, patch_size=16)
        self.body = ViTModel(config, add_pooling_layer=False)
        self.parts = nn.Linear(384, 14)
        self.cost = nn.Sequential(nn.Linear(384, 128), nn.GELU(), nn.Linear(128, 1))

    def forward(self, pixels):
        tokens = self.body(pixel_values=pixels).last_hidden_state
        pooled = tokens.mean(dim=1)
        return self.parts(pooled), self.cost(pooled).squeeze(-1)


def main():
    accelerator = Accelerator(mixed_precision=PRECISION)
    model = Damage()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    data = TensorDataset(torch.zeros(96, 3, 224, 224), torch.zeros(96, 14), torch.zeros(96))
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=24))
    model.train()
    for step, (pixels, parts, cost) in enumerate(loader):
        part_logits, estimate = model(pixels)
        loss = nn.functional.binary_cross_entropy_with_logits(part_logits, parts) + nn.functional.l1_loss(estimate, cost)
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print("step", step, "loss", loss.item())


main()
