"""Bark beetle galleries in spruce, ViT-B/16 in three phases (warm up, main, polish); each phase has its own optimizer."""
import sys

import torch
from transformers import ViTConfig, ViTForImageClassification

PHASES = [
    dict(name="warm up", lr=1e-5, decay=0.0, steps=4),
    dict(name="main", lr=1e-4, decay=0.05, steps=8),
    dict(name="polish", lr=5e-6, decay=0.0, steps=4),
]


class PhaseTrainer:
    def __init__(self, model):
        self.model = model
        self.history = []

    def images(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        for _ in range(n):
            yield torch.rand(4, 3, 224, 224, generator=g), torch.randint(11, (4,), generator=g)

    def phase(self, name, lr, decay, steps):
        optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr, weight_decay=decay)
        scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
        curve = []
        for pixels, species in self.images(steps, len(self.history)):
            loss = self.model(pixel_values=pixels.cuda(), labels=species.cuda()).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            curve.append(loss.item())
        entry = {"phase": name, "curve": curve, "last_lr": scheduler.get_last_lr()}
        if "--fixed" not in sys.argv:
            entry.update(optimizer=optimizer, scheduler=scheduler)
        self.history.append(entry)
        return curve[-1]


if __name__ == "__main__":
    vit = ViTForImageClassification(ViTConfig(num_labels=11)).cuda()
    trainer = PhaseTrainer(vit)
    for p in PHASES:
        print(p["name"], trainer.phase(**p))
