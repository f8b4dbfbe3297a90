"""Fine-tunes a small Llama to write crossword clues, with Accelerate and an evaluation every few steps."""
import math
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import LlamaConfig, LlamaForCausalLM, get_scheduler

FIXED = "--fixed" in sys.argv
VOCAB, LENGTH = 3000, 512


class Clues(Dataset):
    def __init__(self, n, seed):
        self.tokens = torch.randint(0, VOCAB, (n, LENGTH), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return {"input_ids": self.tokens[i], "attention_mask": torch.ones(LENGTH, dtype=torch.long), "labels": self.tokens[i]}


def evaluate(model, loader, accelerator):
    model.eval()
    losses = []
    for batch in loader:
        with torch.no_grad():
            out = model(**batch)
        losses.append(accelerator.gather_for_metrics(out.loss.repeat(len(batch["input_ids"]))).cpu())
    return math.exp(min(20.0, torch.cat(losses).mean().item()))


def main():
    accelerator = Accelerator(mixed_precision="no")
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=10, num_attention_heads=6,
        max_position_embeddings=LENGTH, use_cache=False))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    train_loader = DataLoader(Clues(96, 1), batch_size=8, shuffle=True)
    eval_loader = DataLoader(Clues(16, 2), batch_size=8)
    scheduler = get_scheduler("cosine", optimizer, num_warmup_steps=2, num_training_steps=12)
    model, optimizer, train_loader, eval_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, eval_loader, scheduler)

    model.train()
    for step, batch in enumerate(train_loader):
        if FIXED:
            model.train()
        loss = model(**batch).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        accelerator.print(f"step {step} loss {loss.item():.4f}")
        if (step + 1) % 5 == 0:
            accelerator.print("perplexity", evaluate(model, eval_loader, accelerator))


if __name__ == "__main__":
    main()
