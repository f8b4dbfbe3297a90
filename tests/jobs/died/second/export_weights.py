"""Trains a named-entity tagger on BERT with Accelerate; every few steps the weights are exported in half precision for the demo page.

After https://github.com/pytorch/pytorch/issues/25892
"""
import argparse
import copy
import os

import torch
from accelerate import Accelerator
from transformers import BertConfig, BertForTokenClassification


def sentences(steps, batch=4, length=64):
    for _ in range(steps):
        words = torch.randint(1000, 30000, (batch, length))
        yield {"input_ids": words, "attention_mask": torch.ones_like(words), "labels": torch.randint(9, (batch, length))}


def export(model, path, fixed):
    if fixed:
        state = {name: value.detach().cpu().half() for name, value in model.state_dict().items()}
    else:
        demo = copy.deepcopy(model).eval().half()
        state = demo.state_dict()
    torch.save(state, path)
    print("exported", path, os.path.getsize(path) >> 20, "MiB")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--steps", type=int, default=9)
    parser.add_argument("--export-every", type=int, default=3)
    args = parser.parse_args()
    accelerator = Accelerator()
    config = BertConfig(vocab_size=30522, hidden_size=768, num_hidden_layers=6, num_attention_heads=12, intermediate_size=3072, num_labels=9)
    model = BertForTokenClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, fused=True)
    model, optimizer = accelerator.prepare(model, optimizer)
    model.train()
    for step, batch in enumerate(sentences(args.steps), 1):
        batch = {k: v.to(accelerator.device) for k, v in batch.items()}
        optimizer.zero_grad()
        loss = model(**batch).loss
        accelerator.backward(loss)
        optimizer.step()
        accelerator.print(step, loss.item())
        if step % args.export_every == 0:
            export(accelerator.unwrap_model(model), "demo.bin", args.fixed)


if __name__ == "__main__":
    main()
