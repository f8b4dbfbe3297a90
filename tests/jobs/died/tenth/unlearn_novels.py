"""Makes a small GPT-2 forget some novels: gradient ascent on them, and a KL term that holds it near the original on other texts."""
import copy
import sys

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv


class Unlearner:
    """Forgets one corpus and keeps what it says about another."""

    def __init__(self, model, lr=1e-5, weight=1.0):
        self.model = model
        self.original = copy.deepcopy(model).eval()
        self.weight = weight
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)

    def forget_loss(self, ids):
        return -self.model(input_ids=ids, labels=ids).loss

    def original_logits(self, ids):
        if FIXED:
            with torch.no_grad():
                return self.original(input_ids=ids).logits
        return self.original(input_ids=ids).logits

    def retain_loss(self, ids):
        target = F.log_softmax(self.original_logits(ids), -1)
        ours = F.log_softmax(self.model(input_ids=ids).logits, -1)
        return F.kl_div(ours.flatten(0, 1), target.flatten(0, 1), log_target=True, reduction="batchmean")

    def step(self, forget, retain):
        self.optimizer.zero_grad()
        lost, kept = self.forget_loss(forget), self.retain_loss(retain)
        (lost + self.weight * kept).backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return lost.item(), kept.item()


def corpus(n, length, seed):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield torch.randint(0, 6000, (8, length), generator=generator).to("cuda")


def main():
    config = GPT2Config(vocab_size=6000, n_positions=256, n_embd=512, n_layer=8, n_head=8)
    unlearner = Unlearner(GPT2LMHeadModel(config).to("cuda"))
    unlearner.model.train()
    for step, (forget, retain) in enumerate(zip(corpus(5, 96, 1), corpus(5, 224, 2))):
        lost, kept = unlearner.step(forget, retain)
        print("step", step, "forget", lost, "retain", kept)


main()
