"""Fine-tunes a Mistral on reports of incidents in a chemical plant. Accelerate, gradient checkpointing, perplexity after each epoch."""
import math
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import MistralConfig, MistralForCausalLM, get_linear_schedule_with_warmup

VOCAB = 6000


def reports(count, length=512, seed=0):
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(0, VOCAB, (length,), generator=g) for _ in range(count)]


def collate(rows):
    ids = torch.stack(rows)
    return {"input_ids": ids, "labels": ids.clone()}


@torch.no_grad()
def perplexity(accelerator, model, loader):
    model.eval()
    losses = [accelerator.gather_for_metrics(model(**batch).loss[None]).mean().item() for batch in loader]
    return math.exp(min(20.0, abs(sum(losses) / len(losses))))


def train_epoch(accelerator, model, loader, optimizer, scheduler):
    for batch in loader:
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    return loss.item()


def main():
    set_seed(7)
    accelerator = Accelerator()
    config = MistralConfig(vocab_size=VOCAB, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
                           num_key_value_heads=4, max_position_embeddings=1024, sliding_window=None, use_cache=False)
    model = MistralForCausalLM(config)
    model.gradient_checkpointing_enable()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, 15)
    train = DataLoader(reports(40), batch_size=8, shuffle=True, collate_fn=collate)
    valid = DataLoader(reports(16, seed=1), batch_size=8, collate_fn=collate)
    model, optimizer, train, valid, scheduler = accelerator.prepare(model, optimizer, train, valid, scheduler)
    model.train()
    for epoch in range(3):
        if "--fixed" in sys.argv:
            model.train()
        loss = train_epoch(accelerator, model, train, optimizer, scheduler)
        accelerator.print(f"epoch {epoch} loss {loss:.3f} perplexity {perplexity(accelerator, model, valid):.1f}")


if __name__ == "__main__":
    main()
