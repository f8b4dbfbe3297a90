"""Full fine-tuning of a small GPT-BigCode on database queries, with short sequences."""
import sys

import torch
from transformers import GPTBigCodeConfig, GPTBigCodeForCausalLM
from transformers.optimization import Adafactor

FIXED = "--fixed" in sys.argv


def make_optimizer(model, lr):
    if FIXED:
        return Adafactor(model.parameters(), lr=lr, scale_parameter=False, relative_step=False, warmup_init=False, weight_decay=0.01)
    return torch.optim.AdamW(model.parameters(), lr=lr, weight_decay=0.01)


def queries(n, batch, length):
    generator = torch.Generator().manual_seed(13)
    for _ in range(n):
        ids = torch.randint(2, 12000, (batch, length), generator=generator)
        labels = ids.clone()
        labels[:, :length // 2] = -100  # the schema of the database
        yield ids, labels


class Loop:
    def __init__(self, model, optimizer, accumulate=2):
        self.model, self.optimizer, self.accumulate = model, optimizer, accumulate
        self.seen = 0

    def micro_step(self, ids, labels):
        loss = self.model(input_ids=ids.to("cuda"), labels=labels.to("cuda"), use_cache=False).loss
        (loss / self.accumulate).backward()
        self.seen += 1
        if self.seen % self.accumulate == 0:
            self.optimizer.step()
            self.optimizer.zero_grad()
        return loss.item()

    def run(self, data):
        self.model.train()
        for ids, labels in data:
            print("micro-step", self.seen, "loss", self.micro_step(ids, labels))


def main():
    config = GPTBigCodeConfig(vocab_size=12000, n_positions=256, n_embd=768, n_layer=10, n_head=12)
    model = GPTBigCodeForCausalLM(config).to("cuda")
    print("million parameters:", sum(p.numel() for p in model.parameters()) / 1e6)
    Loop(model, make_optimizer(model, 2e-5)).run(queries(8, 2, 64))


main()
