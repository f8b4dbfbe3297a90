"""Hail or not from radar volumes, an ensemble out of one run with cyclic learning rates (Huang et al. 2017)."""
import copy
import math
import sys

import torch
import torch.nn.functional as F
from transformers import SwinConfig, SwinForImageClassification

FIXED = "--fixed" in sys.argv
CYCLES, STEPS, TOP_RATE = 12, 3, 2e-4


def volumes(batch=8):
    x = torch.zeros(batch, 6, 128, 128)
    x[::2] = 0.5
    return x.cuda(), (torch.arange(batch) % 2).cuda()


def rate_at(step):
    return TOP_RATE / 2 * (math.cos(math.pi * (step % STEPS) / STEPS) + 1)


class Ensemble:
    def __init__(self):
        self.members = []

    def add(self, model):
        member = copy.deepcopy(model).eval()
        if FIXED:
            member = member.cpu()
        self.members.append(member)

    @torch.no_grad()
    def probability(self, x):
        votes = [torch.softmax(m.cuda()(pixel_values=x).logits, -1)[:, 1] for m in self.members[-3:]]
        if FIXED:
            for m in self.members:
                m.cpu()
        return torch.stack(votes).mean(0)


config = SwinConfig(image_size=128, patch_size=4, num_channels=6, embed_dim=96, depths=[2, 2, 6, 2], num_heads=[3, 6, 12, 24],
                    window_size=4, num_labels=2)
model = SwinForImageClassification(config).cuda()
opt = torch.optim.AdamW(model.parameters(), lr=TOP_RATE, weight_decay=0.05)
ensemble = Ensemble()

for cycle in range(CYCLES):
    model.train()
    for k in range(STEPS):
        for group in opt.param_groups:
            group["lr"] = rate_at(k)
        x, hail = volumes()
        loss = F.cross_entropy(model(pixel_values=x).logits, hail)
        opt.zero_grad()
        loss.backward()
        opt.step()
    ensemble.add(model)
    x, hail = volumes(4)
    brier = F.mse_loss(ensemble.probability(x), hail.float())
    print(f"cycle {cycle}: loss {loss.item():.3f}, {len(ensemble.members)} members, brier {brier.item():.3f}")
