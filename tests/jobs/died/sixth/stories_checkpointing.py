"""Trains a StableLM on long stories with gradient checkpointing, and looks at the validation loss from time to time.
"""
import sys

import torch
from transformers import StableLmConfig, StableLmForCausalLM

FIXED = "--fixed" in sys.argv
WORDS = 3000


class Schedule:
    """When to validate, and which learning rate to use."""

    def __init__(self, every, lr, warmup=2):
        self.every, self.lr, self.warmup = every, lr, warmup

    def validates(self, step):
        return step % self.every == self.every - 1

    def __call__(self, step):
        return min(1.0, (step + 1) / self.warmup)


def stories(n, size, length, seed):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randint(0, WORDS, (size, length), generator=generator) for _ in range(n)]


def build():
    config = StableLmConfig(vocab_size=WORDS, hidden_size=384, intermediate_size=1024, num_hidden_layers=12, num_attention_heads=6,
                            num_key_value_heads=6, max_position_embeddings=2048, use_cache=False)
    model = StableLmForCausalLM(config).cuda()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def validation_loss(model, batches):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for ids in batches:
            ids = ids.cuda()
            total += model(input_ids=ids, labels=ids).loss.item()
    if FIXED:
        model.train()
    return total / len(batches)


def main(steps=8):
    model, schedule = build(), Schedule(every=3, lr=3e-4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=schedule.lr)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, schedule)
    valid = stories(2, 1, 1024, seed=4)
    model.train()
    for step, ids in enumerate(stories(steps, 2, 1024, seed=3)):
        ids = ids.cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        warmup.step()
        print("step", step, "loss", loss.item())
        if schedule.validates(step):
            print("validation loss", validation_loss(model, valid))


main()
