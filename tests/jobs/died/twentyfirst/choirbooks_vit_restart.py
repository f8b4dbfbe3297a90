"""Continues the training of a ViT that dates choirbook pages: the state of the last night's run is read, and the training goes on."""
import copy
import os
import sys
import tempfile

import torch
import torch.nn.functional as F
from transformers import ViTConfig, ViTForImageClassification

CENTURIES = 8


def make_model():
    cfg = ViTConfig(hidden_size=576, num_hidden_layers=10, num_attention_heads=9, intermediate_size=2304, image_size=96, patch_size=16,
                    num_labels=CENTURIES)
    return ViTForImageClassification(cfg)


def last_night(path):
    """What the run of last night left (the optimizer's state was not saved)."""
    weights = make_model().state_dict()
    torch.save({"model": weights, "ema": copy.deepcopy(weights), "best": copy.deepcopy(weights), "best_accuracy": 0.61, "epoch": 14}, path)


class Run:
    def __init__(self, path, device="cuda"):
        self.device = device
        self.model = make_model().to(device)
        self.ema = copy.deepcopy(self.model).requires_grad_(False)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.checkpoint = torch.load(path, map_location="cpu" if "--fixed" in sys.argv else device)
        self.model.load_state_dict(self.checkpoint["model"])
        self.ema.load_state_dict(self.checkpoint["ema"])
        self.epoch = self.checkpoint["epoch"] + 1

    @torch.no_grad()
    def average(self, decay=0.999):
        for a, p in zip(self.ema.parameters(), self.model.parameters()):
            a.lerp_(p, 1 - decay)

    def train_epoch(self, gen, steps=5):
        self.model.train()
        for _ in range(steps):
            pages = torch.randn(8, 3, 96, 96, generator=gen).to(self.device)
            century = torch.randint(0, CENTURIES, (8,), generator=gen).to(self.device)
            loss = F.cross_entropy(self.model(pixel_values=pages).logits, century)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.average()
        return loss.item()

    def go_on(self, epochs):
        gen = torch.Generator().manual_seed(self.epoch)
        for self.epoch in range(self.epoch, self.epoch + epochs):
            print("epoch", self.epoch, "loss", self.train_epoch(gen), "best so far", self.checkpoint["best_accuracy"])


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "last.pt")
    last_night(file)
    Run(file).go_on(2)
