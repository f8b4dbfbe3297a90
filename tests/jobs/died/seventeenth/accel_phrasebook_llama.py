"""Trains a Llama on phrasebooks with Accelerate; to save memory, with gradient checkpointing."""
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

EPOCHS = 2


def phrases(count, seed, length=512):
    g = torch.Generator().manual_seed(seed)
    return [{"input_ids": row, "labels": row} for row in torch.randint(3, 3000, (count, length), generator=g)]


def validate(model, loader, accelerator):
    model.eval()
    losses = []
    for batch in loader:
        with torch.inference_mode():
            out = model(**batch)
        losses.append(accelerator.gather_for_metrics(out.loss.repeat(len(batch["input_ids"]))).cpu())
    if "--fixed" in sys.argv:
        model.train()
    return torch.cat(losses).mean().item()


def main():
    set_seed(42)
    accelerator = Accelerator(gradient_accumulation_steps=2)
    config = LlamaConfig(vocab_size=3000, hidden_size=384, intermediate_size=1024, num_hidden_layers=10, num_attention_heads=6,
                         num_key_value_heads=6, max_position_embeddings=512, use_cache=False)
    model = LlamaForCausalLM(config)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    train_loader = DataLoader(phrases(64, 1), batch_size=8, shuffle=True)
    val_loader = DataLoader(phrases(16, 2), batch_size=8)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=8)
    model, optimizer, train_loader, val_loader, scheduler = accelerator.prepare(model, optimizer, train_loader, val_loader, scheduler)

    model.train()
    for epoch in range(EPOCHS):
        for batch in train_loader:
            with accelerator.accumulate(model):
                loss = model(**batch).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        val = validate(model, val_loader, accelerator)
        accelerator.print(f"epoch {epoch}: train {loss.item():.3f} val {val:.3f}")


if __name__ == "__main__":
    main()
