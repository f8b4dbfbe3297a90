"""Recognises origami folds; a callback keeps what each attention block gives out for an atlas of features."""
import sys
from collections import defaultdict

import lightning as L
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Block(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.attention = nn.MultiheadAttention(d, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(d, 3 * d), nn.GELU(), nn.Linear(3 * d, d))

    def forward(self, x):
        y = self.n1(x)
        x = x + self.attention(y, y, y, need_weights=False)[0]
        return x + self.mlp(self.n2(x))


class FoldViT(L.LightningModule):
    def __init__(self, d=384, depth=6, folds=30):
        super().__init__()
        self.patch = nn.Conv2d(1, d, 14, 14)
        self.position = nn.Parameter(torch.zeros(1, 256, d))
        self.blocks = nn.Sequential(*[Block(d, 6) for _ in range(depth)])
        self.classify = nn.Linear(d, folds)

    def forward(self, x):
        x = self.patch(x).flatten(2).transpose(1, 2) + self.position
        return self.classify(self.blocks(x).mean(1))

    def training_step(self, batch, i):
        paper, fold = batch
        return nn.functional.cross_entropy(self(paper), fold)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4)


class FeatureAtlas(L.Callback):
    def __init__(self, compact):
        self.compact, self.features, self.handles = compact, defaultdict(list), []

    def on_fit_start(self, trainer, module):
        for name, block in module.blocks.named_children():
            self.handles.append(block.register_forward_hook(self.recorder(name)))

    def recorder(self, name):
        def record(block, inputs, output):
            output = output.detach()
            self.features[name].append(output.mean(1).cpu() if self.compact else output)
        return record

    def on_fit_end(self, trainer, module):
        for handle in self.handles:
            handle.remove()
        for name, values in self.features.items():
            print("block", name, "calls", len(values))


g = torch.Generator().manual_seed(6)
data = TensorDataset(torch.rand(640, 1, 224, 224, generator=g), torch.randint(30, (640,), generator=g))
L.Trainer(accelerator="gpu", devices=1, max_epochs=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
          enable_model_summary=False, callbacks=[FeatureAtlas("--fixed" in sys.argv)]).fit(FoldViT(), DataLoader(data, batch_size=16))
