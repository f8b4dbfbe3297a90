"""Moult stage of passerines from photographs of a spread wing (DINOv2, fine-tuned whole). Token norms are looked at after each epoch."""
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import Dinov2Config, Dinov2ForImageClassification

FIXED = "--fixed" in sys.argv


class TokenNorms:
    """High-norm tokens spoil the attention maps (see 'registers'); this shows in which block they appear."""

    def __init__(self, model):
        self.outputs = {}
        for index, layer in enumerate(model.dinov2.encoder.layer):
            layer.register_forward_hook(self.hook(index))

    def hook(self, index):
        def remember(module, args, output):
            hidden = output[0] if isinstance(output, tuple) else output
            hidden = hidden.detach()
            if FIXED:
                hidden = hidden.norm(dim=-1).cpu()
            self.outputs.setdefault(index, []).append(hidden)
        return remember

    def report(self):
        for index, parts in self.outputs.items():
            norms = [p if p.dim() == 2 else p.norm(dim=-1).cpu() for p in parts]
            norms = torch.cat(norms).flatten()
            print(f"  block {index:2d}: mean {norms.mean().item():.2f}, max {norms.max().item():.2f}")
        self.outputs.clear()


def wings(n=320):
    gen = torch.Generator().manual_seed(12)
    pictures = torch.randn(16, 3, 224, 224, generator=gen)[torch.arange(n) % 16]
    return TensorDataset(pictures, torch.randint(0, 7, (n,), generator=gen))


def main():
    config = Dinov2Config(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, image_size=224, patch_size=14, num_labels=7)
    model = Dinov2ForImageClassification(config).cuda()
    norms = TokenNorms(model)
    groups = [{"params": model.dinov2.parameters(), "lr": 1e-5}, {"params": model.classifier.parameters(), "lr": 1e-3}]
    optimizer = torch.optim.AdamW(groups, weight_decay=0.05)
    loader = DataLoader(wings(), batch_size=16, shuffle=True)
    for epoch in range(1):
        model.train()
        for pixel_values, labels in loader:
            loss = model(pixel_values=pixel_values.cuda(), labels=labels.cuda()).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())
        norms.report()


main()
