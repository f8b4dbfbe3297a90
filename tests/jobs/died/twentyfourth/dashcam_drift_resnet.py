"""Road conditions from dashcams, with a record of how the features of each stage drift while the network is trained."""
import sys
from collections import defaultdict

import torch
from torch import nn
from transformers import ResNetConfig, ResNetForImageClassification

FIXED = "--fixed" in sys.argv
CONDITIONS = ("dry", "wet", "snow", "leaves", "gravel")


class DriftRecorder:
    """Watches the stages of the encoder; summary() tells mean and spread of each stage over the epoch."""

    def __init__(self, model):
        self.records = defaultdict(list)
        self.handles = [stage.register_forward_hook(self._watch(f"stage{i}")) for i, stage in enumerate(model.resnet.encoder.stages)]

    def _watch(self, name):
        def hook(module, inputs, output):
            if FIXED:
                output = output.detach().mean((0, 2, 3)).cpu()
            self.records[name].append(output)
        return hook

    def summary(self):
        lines = {}
        for name, values in self.records.items():
            means = torch.stack([v.detach().mean().cpu() for v in values])
            lines[name] = (means.mean().item(), means.std().item())
        self.records.clear()
        return lines

    def close(self):
        for handle in self.handles:
            handle.remove()


class RoadDataset(torch.utils.data.IterableDataset):
    def __init__(self, count, seed=0):
        self.count, self.seed = count, seed

    def __iter__(self):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(self.count):
            yield torch.rand(3, 160, 288, generator=g), int(torch.randint(0, len(CONDITIONS), (1,), generator=g))


def train(epochs=2, batch_size=16, batches=24):
    config = ResNetConfig(embedding_size=32, hidden_sizes=[32, 64, 128, 256], depths=[2, 2, 2, 2], layer_type="basic",
                          num_labels=len(CONDITIONS))
    model = ResNetForImageClassification(config).cuda()
    recorder = DriftRecorder(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loader = torch.utils.data.DataLoader(RoadDataset(batch_size * batches), batch_size)
    for epoch in range(epochs):
        model.train()
        for frames, labels in loader:
            logits = model(pixel_values=frames.cuda()).logits
            loss = nn.functional.cross_entropy(logits, labels.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())
        for name, (mean, drift) in recorder.summary().items():
            print("   ", name, round(mean, 4), round(drift, 5))
    recorder.close()


train()
