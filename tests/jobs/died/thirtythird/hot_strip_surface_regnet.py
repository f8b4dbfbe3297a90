"""Classifies surface faults of hot-rolled strip with a RegNet, and tells at the end of the epoch which channels never respond."""
import sys
from collections import defaultdict

import torch
from transformers import RegNetConfig, RegNetForImageClassification

FIXED = "--fixed" in sys.argv


class ChannelWatch:
    """Listens to the stages of the network."""

    def __init__(self, network):
        self.seen = defaultdict(list)
        for number, stage in enumerate(network.regnet.encoder.stages):
            stage.register_forward_hook(self.listener(f"stage{number}"))

    def listener(self, name):
        def listen(module, inputs, output):
            output = output.detach()
            if FIXED:
                output = output.mean((0, 2, 3)).cpu()
            self.seen[name].append(output)
        return listen

    def silent(self):
        report = {}
        for name, outputs in self.seen.items():
            means = [o if o.ndim == 1 else o.mean((0, 2, 3)).cpu() for o in outputs]
            report[name] = int((torch.stack(means).amax(0) <= 0).sum())
        self.seen.clear()
        return report


config = RegNetConfig(num_channels=1, embedding_size=32, hidden_sizes=[64, 128, 256, 384], depths=[1, 2, 4, 1], groups_width=32, num_labels=6)
network = RegNetForImageClassification(config).to("cuda")
watch = ChannelWatch(network)
optimizer = torch.optim.SGD(network.parameters(), lr=0.1, momentum=0.9, nesterov=True)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, start_factor=0.1, total_iters=10)

for epoch in range(2):
    network.train()
    for batch in range(30):
        plates = torch.full((16, 1, 256, 256), batch / 40)
        faults = torch.arange(16) % 6
        result = network(pixel_values=plates.to("cuda"), labels=faults.to("cuda"))
        optimizer.zero_grad()
        result.loss.backward()
        optimizer.step()
        warmup.step()
    print(f"epoch {epoch}: loss {result.loss.item():.3f}, silent channels {watch.silent()}")
