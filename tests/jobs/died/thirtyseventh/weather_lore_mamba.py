#!/usr/bin/env python
"""A small Mamba on sayings about the weather ("red sky at night ..."). Config as a dataclass, because everything else of mine is."""
import sys
from dataclasses import dataclass

import torch
from transformers import MambaConfig, MambaForCausalLM


@dataclass
class Run:
    batch_size: int = 36
    block: int = 160
    steps: int = 5
    lr: float = 6e-4
    warmup: int = 2
    vocab: int = 3000


def sayings(run: Run, g: torch.Generator):
    while True:
        yield torch.randint(0, run.vocab, (run.batch_size, run.block), generator=g)


def build(run: Run):
    cfg = MambaConfig(vocab_size=run.vocab, hidden_size=256, state_size=16, num_hidden_layers=4, expand=2, conv_kernel=4, use_cache=False)
    return MambaForCausalLM(cfg)


def decay_groups(model, wd=0.1):
    yes = [p for p in model.parameters() if p.dim() >= 2]
    no = [p for p in model.parameters() if p.dim() < 2]
    return [{"params": yes, "weight_decay": wd}, {"params": no, "weight_decay": 0.0}]


def train(run: Run):
    torch.manual_seed(1883)
    model = build(run).cuda()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters")
    optim = torch.optim.AdamW(decay_groups(model), lr=run.lr, betas=(0.9, 0.95))
    sched = torch.optim.lr_scheduler.LambdaLR(optim, lambda s: min(1.0, (s + 1) / run.warmup))
    stream = sayings(run, torch.Generator().manual_seed(4))
    for step in range(run.steps):
        ids = next(stream).cuda(non_blocking=True)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        sched.step()
        optim.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    train(Run(batch_size=10) if "--fixed" in sys.argv else Run())
