"""Fine-tuning in stages, as ULMFiT does: each stage unfreezes more layers and makes a new optimizer.

https://github.com/microsoft/computervision-recipes/issues/444
"""
import argparse

import torch
from transformers import BertConfig, BertForSequenceClassification

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
model = BertForSequenceClassification(BertConfig(vocab_size=8000, hidden_size=768, num_hidden_layers=8, num_attention_heads=12,
                                                 intermediate_size=3072)).cuda()
schedulers = []


def run_stage(unfrozen, steps=3):
    for name, p in model.named_parameters():
        layer = int(name.split(".layer.")[1].split(".")[0]) if ".layer." in name else (8 if "classifier" in name or "pooler" in name else -1)
        p.requires_grad_(layer >= 8 - unfrozen)
    optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=2e-5)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, total_iters=steps)
    if args.fixed:
        schedulers.clear()
    schedulers.append(scheduler)
    for _ in range(steps):
        ids, labels = torch.randint(0, 8000, (4, 128), device="cuda"), torch.randint(0, 2, (4,), device="cuda")
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return loss.item()


for unfrozen in 0, 4, 6, 8, 9:
    print(unfrozen, run_stage(unfrozen))
