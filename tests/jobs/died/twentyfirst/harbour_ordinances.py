"""Continued pre-training of a small Mistral on a harbour's ordinances from 1600 on, documents of 2048 tokens, bf16 autocast."""
import math
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import MistralConfig, MistralForCausalLM

BLOCK = 2048
config = MistralConfig(
    vocab_size=6000,
    hidden_size=384,
    intermediate_size=1024,
    num_hidden_layers=6,
    num_attention_heads=12,
    num_key_value_heads=4,
    max_position_embeddings=BLOCK,
    sliding_window=None,
    attn_implementation="sdpa" if "--fixed" in sys.argv else "eager",
)


class Ordinances(Dataset):
    def __init__(self, blocks):
        self.tokens = torch.randint(3, 6000, (blocks, BLOCK), generator=torch.Generator().manual_seed(1600))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i]


def lr_at(step, warmup=2, total=8):
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / (total - warmup)))


def main():
    model = MistralForCausalLM(config).cuda()
    decay = [p for p in model.parameters() if p.ndim >= 2]
    rest = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=3e-4)
    scheduler = torch.optim.lr_scheduler.LambdaLR(optimizer, lr_at)
    model.train()
    for step, ids in enumerate(DataLoader(Ordinances(16), batch_size=2)):
        ids = ids.cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step:2d} loss {loss.item():.3f} lr {scheduler.get_last_lr()[0]:.2e}")


main()
