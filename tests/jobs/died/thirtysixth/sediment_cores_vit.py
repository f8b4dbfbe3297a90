"""Lithofacies of sediment cores: a linear head on the patches of a ViT that was pretrained on core photographs."""
import os
import sys
import tempfile

import torch
import torch.nn as nn
from transformers import ViTConfig, ViTModel

FACIES = ["mud", "silt", "sand", "gravel", "diamicton", "peat", "tephra"]
CFG = ViTConfig(hidden_size=384, num_hidden_layers=10, num_attention_heads=6, intermediate_size=1536, image_size=224, patch_size=16)


def pretrained_backbone():
    """Here a fresh one, written and read as the real one is."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "core_vit.pt")
        torch.save(ViTModel(CFG, add_pooling_layer=False).state_dict(), path)
        backbone = ViTModel(CFG, add_pooling_layer=False)
        backbone.load_state_dict(torch.load(path, map_location="cpu"))
    return backbone


def freeze(module):
    for p in module.parameters():
        if "--fixed" in sys.argv:
            p.requires_grad = False
        else:
            p.require_grad = False


class FaciesProbe(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = pretrained_backbone()
        freeze(self.backbone)
        self.head = nn.Sequential(nn.LayerNorm(CFG.hidden_size), nn.Linear(CFG.hidden_size, len(FACIES)))

    def forward(self, photo):
        tokens = self.backbone(pixel_values=photo).last_hidden_state[:, 1:]
        return self.head(tokens)                # one facies for every patch of 16 x 16 pixels


def photographs(batches, n=32, seed=12):
    g = torch.Generator().manual_seed(seed)
    for _ in range(batches):
        yield torch.rand(n, 3, 224, 224, generator=g), torch.randint(0, len(FACIES), (n, 196), generator=g)


def main():
    model = FaciesProbe().to("cuda")
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    weights = torch.tensor([1.0, 1.0, 0.8, 2.0, 2.5, 3.0, 6.0], device="cuda")
    criterion = nn.CrossEntropyLoss(weight=weights)
    for epoch in range(2):
        model.train()
        for photo, facies in photographs(5, seed=epoch):
            logits = model(photo.to("cuda"))
            loss = criterion(logits.flatten(0, 1), facies.to("cuda").flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(f"{epoch}: {loss.item():.3f}")
        model.eval()
        with torch.no_grad():
            right = [(model(p.to("cuda")).argmax(-1) == f.to("cuda")).float().mean().item() for p, f in photographs(2, seed=99)]
        print("patch accuracy", sum(right) / len(right))


main()
