#!/usr/bin/env python
"""Nucleotide-level Llama on phage genomes: windows of 2560 bases, bf16 autocast."""
import sys
import time

import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import AutoConfig, AutoModelForCausalLM

BASES = {c: i + 3 for i, c in enumerate("ACGTN")}
ATTENTION = "sdpa" if "--fixed" in sys.argv else "eager"


class Windows(IterableDataset):
    """Random windows out of genomes, some of them as the reverse complement."""

    def __init__(self, genomes, window=2560, n=24):
        self.genomes, self.window, self.n = genomes, window, n

    def __iter__(self):
        gen = torch.Generator().manual_seed(0)
        for k in range(self.n):
            genome = self.genomes[k % len(self.genomes)]
            start = int(torch.randint(0, len(genome) - self.window, (1,), generator=gen))
            piece = genome[start:start + self.window]
            if k % 2:
                piece = piece.flip(0)
            yield piece


def read_genomes(n=6, size=40000):
    gen = torch.Generator().manual_seed(1)
    return [torch.randint(3, 3 + len(BASES), (size,), generator=gen) for _ in range(n)]


def build():
    config = AutoConfig.for_model("llama", vocab_size=16, hidden_size=384, intermediate_size=1024, num_hidden_layers=6,
                                  num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=4096)
    return AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION)


def main():
    model = build().cuda().train()
    opt = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
    started = time.time()
    for step, ids in enumerate(DataLoader(Windows(read_genomes()), batch_size=4)):
        ids = ids.cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=True)
        print(f"{step:4d} loss {loss.item():.4f} bases/s {ids.numel() * (step + 1) / (time.time() - started):.0f}", flush=True)


main()
