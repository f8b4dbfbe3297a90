"""Property portal: room types on photographs of listings; stage one at a high rate, stage two with rates that fall towards the stem."""
import sys
from dataclasses import dataclass

import torch
from transformers import ConvNextConfig, ConvNextForImageClassification


@dataclass
class Stage:
    name: str
    steps: int
    lr: float
    layer_decay: float = 1.0


class StagedTrainer:
    def __init__(self, model, stages):
        self.model, self.stages = model.cuda(), stages
        self.optimizers = {}
        self.gen = torch.Generator().manual_seed(14)

    def groups(self, stage):
        if stage.layer_decay == 1.0:
            return [{"params": list(self.model.parameters()), "lr": stage.lr}]
        named = list(self.model.named_parameters())
        out = []
        for depth, prefix in enumerate(("classifier", "convnext.layernorm", "convnext.encoder", "convnext.embeddings")):
            params = [p for n, p in named if n.startswith(prefix)]
            out.append({"params": params, "lr": stage.lr * stage.layer_decay ** depth})
        return out

    def photos(self, n=8):
        return torch.rand(n, 3, 128, 128, generator=self.gen).cuda(), torch.randint(0, 14, (n,), generator=self.gen).cuda()

    def run_stage(self, stage):
        if "--fixed" in sys.argv:
            self.optimizers.clear()
        optimizer = self.optimizers[stage.name] = torch.optim.AdamW(self.groups(stage), weight_decay=0.05)
        self.model.train()
        for step in range(stage.steps):
            pixels, room = self.photos()
            loss = self.model(pixel_values=pixels, labels=room).loss
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            print(stage.name, step, loss.item())

    def run(self):
        for stage in self.stages:
            self.run_stage(stage)
        print({name: opt.param_groups[0]["lr"] for name, opt in self.optimizers.items()})


if __name__ == "__main__":
    config = ConvNextConfig(hidden_sizes=[128, 256, 512, 1024], depths=[2, 2, 6, 3], num_labels=14, drop_path_rate=0.0)
    StagedTrainer(ConvNextForImageClassification(config), [Stage("warm", 5, 1e-3), Stage("tune", 5, 2e-4, layer_decay=0.7)]).run()
