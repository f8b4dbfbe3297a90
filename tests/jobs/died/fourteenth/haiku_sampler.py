"""Trains a small GPT-2 on haiku and, every few steps, writes some with a sampling loop of its own so as to see progress."""
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv
VOCABULARY = 6000

config = GPT2Config(vocab_size=VOCABULARY, n_positions=512, n_embd=320, n_layer=8, n_head=5, bos_token_id=0, eos_token_id=0)
model = GPT2LMHeadModel(config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95))
schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=12)
generator = torch.Generator().manual_seed(17)


def batch(size=24, length=64):
    return torch.randint(1, VOCABULARY, (size, length), generator=generator).to("cuda")


def sample(count=64, length=96, temperature=0.9, top=50):
    """Haiku as lists of tokens, with the keys and values of earlier tokens kept."""
    model.eval()
    tokens = torch.zeros(count, 1, dtype=torch.long, device="cuda")
    past, step = None, tokens
    for _ in range(length):
        out = model(input_ids=step, past_key_values=past, use_cache=True)
        past = out.past_key_values
        logits = out.logits[:, -1] / temperature
        best, index = logits.topk(top, -1)
        choice = torch.multinomial(torch.softmax(best, -1), 1)
        step = index.gather(-1, choice)
        tokens = torch.cat([tokens, step], 1)
    model.train()
    return tokens.tolist()


if FIXED:
    sample = torch.no_grad()(sample)


def main():
    model.train()
    for step in range(12):
        ids = batch()
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        print("step", step, "loss", loss.item(), "rate", schedule.get_last_lr()[0])
        if step % 6 == 5:
            haiku = sample()
            print(len(haiku), "haiku of", len(haiku[0]), "tokens")


main()
