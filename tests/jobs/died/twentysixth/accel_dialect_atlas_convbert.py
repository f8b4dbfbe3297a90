#!/usr/bin/env python3
"""ConvBERT with one head for each region of a dialect atlas; a step sees a batch of every region, so that none is forgotten."""
import sys

import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from transformers import ConvBertConfig, ConvBertModel

REGIONS = ["north", "fells", "dales", "wolds", "marsh", "fens", "downs", "weald", "moor", "isles"]


class Atlas(nn.Module):
    def __init__(self, config, features=21):
        super().__init__()
        self.encoder = ConvBertModel(config)
        self.heads = nn.ModuleDict({r: nn.Linear(config.hidden_size, features) for r in REGIONS})

    def forward(self, region, ids, target):
        hidden = self.encoder(input_ids=ids).last_hidden_state.mean(1)
        return nn.functional.binary_cross_entropy_with_logits(self.heads[region](hidden), target)


class RegionSampler:
    def __init__(self, region, batch=12, length=128):
        self.g = torch.Generator().manual_seed(REGIONS.index(region))
        self.shape, self.batch = (batch, length), batch

    def draw(self, device):
        ids = torch.randint(1, 9000, self.shape, generator=self.g)
        target = torch.randint(2, (self.batch, 21), generator=self.g).float()
        return ids.to(device), target.to(device)


def step_all_regions(accelerator, model, samplers):
    total = 0.0
    for region, sampler in samplers.items():
        loss = model(region, *sampler.draw(accelerator.device)) / len(samplers)
        if "--fixed" in sys.argv:
            accelerator.backward(loss)
            loss = loss.item()
        total = total + loss
    if torch.is_tensor(total):
        accelerator.backward(total)
    return float(total)


def main():
    set_seed(11)
    accelerator = Accelerator(cpu=False)
    config = ConvBertConfig(vocab_size=9000, embedding_size=128, hidden_size=256, num_hidden_layers=5, num_attention_heads=4,
                            intermediate_size=768, max_position_embeddings=128)
    model = Atlas(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=1e-2)
    model, optimizer = accelerator.prepare(model, optimizer)
    samplers = {region: RegionSampler(region) for region in REGIONS}
    for step in range(5):
        value = step_all_regions(accelerator, model, samplers)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(f"step={step} loss={value:.3f}")


main()
