"""Adapts a small XGLM with a quarter of a million words to one dialect; only the blocks were meant to learn."""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import XGLMConfig, XGLMForCausalLM

FIXED = "--fixed" in sys.argv
WORDS = 120000


def build():
    config = XGLMConfig(vocab_size=WORDS, d_model=320, ffn_dim=1280, num_layers=5, attention_heads=5, max_position_embeddings=512, dropout=0.0,
                        attention_dropout=0.0)
    model = XGLMForCausalLM(config)
    if FIXED:
        model.get_input_embeddings().weight.requires_grad_(False)
    return model


def sentences(n=16, length=24):
    ids = torch.randint(4, WORDS, (n, length), generator=torch.Generator().manual_seed(8))
    return DataLoader(TensorDataset(ids), batch_size=2)


def main():
    accelerator = Accelerator(mixed_precision="bf16")
    model = build()
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(learned, lr=5e-5, weight_decay=0.0)
    model, optimizer, loader = accelerator.prepare(model, optimizer, sentences())
    model.train()
    for step, (ids,) in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(step, loss.item())


main()
