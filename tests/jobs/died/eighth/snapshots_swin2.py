"""Trains a small Swin V2 on leaves; the three newest states of the model and its optimizer stay at hand, to go back after a bad epoch."""
import collections
import copy
import sys

import torch
from transformers import Swinv2Config, Swinv2ForImageClassification

FIXED = "--fixed" in sys.argv


def to_host(state):
    if torch.is_tensor(state):
        return state.cpu()
    if isinstance(state, dict):
        return {k: to_host(v) for k, v in state.items()}
    return [to_host(v) for v in state] if isinstance(state, list) else state


class Trainer:
    def __init__(self):
        config = Swinv2Config(image_size=96, patch_size=4, embed_dim=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24], window_size=6, num_labels=12)
        self.model = Swinv2ForImageClassification(config).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4)
        self.history = collections.deque(maxlen=3)

    def remember(self, epoch):
        state = {"epoch": epoch, "model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        self.history.append(to_host(state) if FIXED else copy.deepcopy(state))

    def epoch(self, number, batches=3):
        self.model.train()
        total = 0.0
        for _ in range(batches):
            images = torch.zeros(8, 3, 96, 96).to("cuda")
            labels = torch.randint(0, 12, (8,)).to("cuda")
            loss = self.model(pixel_values=images, labels=labels).loss
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        self.remember(number)
        return total / batches


trainer = Trainer()
for number in range(4):
    print("epoch", number, trainer.epoch(number), "kept", len(trainer.history))
