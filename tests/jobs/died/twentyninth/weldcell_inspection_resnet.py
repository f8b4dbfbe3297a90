"""Trains the weld inspection of a robot cell; a monitor watches how active the stages are, for the drift report to the plant."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
from transformers import ResNetConfig, ResNetForImageClassification

DEFECTS = ["none", "pore", "undercut", "spatter", "crack", "lack of fusion"]


class ActivityMonitor:
    """Collects what the stages of a network put out; `report` gives the share of dead channels at the end of an epoch."""

    def __init__(self, stages, reduce):
        self.reduce = reduce
        self.seen = defaultdict(list)
        self.handles = [stage.register_forward_hook(self._watch(f"stage{i}")) for i, stage in enumerate(stages)]

    def _watch(self, name):
        def hook(module, inputs, output):
            maps = output.detach()
            self.seen[name].append(maps.mean((0, 2, 3)) if self.reduce else maps)
        return hook

    def report(self):
        shares = {}
        for name, items in self.seen.items():
            means = torch.stack([item if item.dim() == 1 else item.mean((0, 2, 3)) for item in items]).mean(0)
            shares[name] = (means.abs() < 1e-3).float().mean().item()
        self.seen.clear()
        return shares


class WeldTrainer:
    def __init__(self):
        config = ResNetConfig(embedding_size=32, hidden_sizes=[64, 128, 256, 512], depths=[1, 1, 2, 1], layer_type="basic",
                              num_labels=len(DEFECTS))
        self.model = ResNetForImageClassification(config).cuda()
        self.monitor = ActivityMonitor(self.model.resnet.encoder.stages, reduce="--fixed" in sys.argv)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01, momentum=0.9, nesterov=True)
        self.generator = torch.Generator().manual_seed(19)

    def images(self, count, batch=24, side=192):
        for _ in range(count):
            yield (torch.randn(batch, 3, side, side, generator=self.generator).cuda(),
                   torch.randint(len(DEFECTS), (batch,), generator=self.generator).cuda())

    def epoch(self, number):
        self.model.train()
        for image, defect in self.images(50):
            loss = self.model(pixel_values=image, labels=defect).loss
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        print("epoch", number, "loss", loss.item(), "dead", self.monitor.report())


trainer = WeldTrainer()
for number in range(1, 3):
    trainer.epoch(number)
