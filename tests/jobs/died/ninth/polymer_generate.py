"""Trains a small GPT on the notation of polymers, then draws candidates for the laboratory with generate()."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv
CONFIG = dict(vocab_size=180, n_positions=320, n_embd=384, n_layer=6, n_head=6, bos_token_id=0, eos_token_id=1, pad_token_id=2)
CANDIDATES, LENGTH = 768, 96


def notation(batch, length):
    """Token ids of random polymers."""
    ids = torch.randint(3, CONFIG["vocab_size"], (batch, length))
    ids[:, 0] = CONFIG["bos_token_id"]
    return ids


def train(model, steps):
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    model.train()
    for step in range(steps):
        ids = notation(24, 96).to("cuda")
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())
    optimizer.zero_grad(set_to_none=True)


class Laboratory:
    def __init__(self, model, at_once):
        self.model, self.at_once = model.eval(), at_once

    def draw(self, n):
        drawn = []
        for i in range(0, n, self.at_once):
            start = torch.full((min(self.at_once, n - i), 1), CONFIG["bos_token_id"], device="cuda")
            ids = self.model.generate(start, attention_mask=torch.ones_like(start), do_sample=False, min_new_tokens=LENGTH, max_new_tokens=LENGTH)
            drawn.append(ids.cpu())
        return torch.cat(drawn)


def main():
    model = GPT2LMHeadModel(GPT2Config(**CONFIG)).to("cuda")
    train(model, 4)
    candidates = Laboratory(model, 64 if FIXED else CANDIDATES).draw(CANDIDATES)
    print("candidates", tuple(candidates.shape))


main()
