"""Trains a small Phi on cooking recipes; a large batch is made of eight small ones, as it does not fit at once.
"""
import sys

import torch
from transformers import PhiConfig, PhiForCausalLM

FIXED = "--fixed" in sys.argv
ACCUMULATE = 8


def recipes(steps, size=2, length=384, vocabulary=6000):
    generator = torch.Generator().manual_seed(0)
    for _ in range(steps * ACCUMULATE):
        yield torch.randint(0, vocabulary, (size, length), generator=generator)


def build(vocabulary=6000):
    config = PhiConfig(vocab_size=vocabulary, hidden_size=512, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=8,
                       max_position_embeddings=512, use_cache=False)
    return PhiForCausalLM(config).to(device="cuda", dtype=torch.bfloat16)


def micro_batches(stream):
    group = []
    for batch in stream:
        group.append(batch)
        if len(group) == ACCUMULATE:
            yield group
            group = []


def step_backward_each(model, group):
    total = 0.0
    for ids in group:
        ids = ids.to("cuda")
        loss = model(input_ids=ids, labels=ids).loss / ACCUMULATE
        loss.backward()
        total += loss.item()
    return total


def step_backward_once(model, group):
    total = 0.0
    for ids in group:
        ids = ids.to("cuda")
        total = total + model(input_ids=ids, labels=ids).loss / ACCUMULATE
    total.backward()
    return total.item()


def main(steps=3):
    model = build()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    step = step_backward_each if FIXED else step_backward_once
    for n, group in enumerate(micro_batches(recipes(steps))):
        loss = step(model, group)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        print("step", n, "loss", loss)


main()
