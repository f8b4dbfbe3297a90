"""Continues the training of a small BLOOM, whose vocabulary has 250880 words, on names of places.
"""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import BloomConfig, BloomForCausalLM

FIXED = "--fixed" in sys.argv
VOCABULARY = 250880


def names(n, size=4, length=256):
    generator = torch.Generator().manual_seed(8)
    for _ in range(n):
        yield torch.randint(0, VOCABULARY, (size, length), generator=generator).to("cuda")


def build():
    with torch.device("cuda"):
        model = BloomForCausalLM(BloomConfig(vocab_size=VOCABULARY, hidden_size=128, n_layer=4, n_head=4, use_cache=False))
    return model


def part_of_loss(hidden, weight, labels):
    return F.cross_entropy(F.linear(hidden, weight).float(), labels, reduction="sum")


def loss_in_parts(model, ids, size=128):
    hidden = model.transformer(ids).last_hidden_state[:, :-1].flatten(0, 1)
    labels = ids[:, 1:].flatten()
    total = 0
    for h, y in zip(hidden.split(size), labels.split(size)):
        total = total + checkpoint(part_of_loss, h, model.lm_head.weight, y, use_reentrant=False)
    return total / len(labels)


def loss_of_model(model, ids):
    return model(input_ids=ids, labels=ids).loss


def main():
    model = build()
    model.train()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loss_of = loss_in_parts if FIXED else loss_of_model
    for step, ids in enumerate(names(4)):
        loss = loss_of(model, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(step, loss.item())


main()
