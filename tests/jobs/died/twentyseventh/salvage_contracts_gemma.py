"""Tunes a Gemma on salvage contracts, with gradient checkpointing so that long clauses fit; loads the weights as any user does."""
import sys
import tempfile

import torch
from torch.utils.data import DataLoader
from transformers import AutoModelForCausalLM, GemmaConfig, GemmaForCausalLM


def published_weights(folder):
    """What would come from the hub."""
    config = GemmaConfig(vocab_size=4000, hidden_size=256, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=4,
                         num_key_value_heads=1, head_dim=64, max_position_embeddings=1024)
    GemmaForCausalLM(config).save_pretrained(folder)
    return folder


def clauses(n, length=512):
    return [torch.randint(3, 4000, (length,)) for _ in range(n)]


def collate(rows):
    ids = torch.stack(rows)
    return {"input_ids": ids, "labels": ids.clone(), "attention_mask": torch.ones_like(ids)}


def finetune(model, loader, lr=2e-5):
    optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
    for step, batch in enumerate(loader):
        batch = {k: v.to(model.device) for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


def main():
    torch.manual_seed(8)
    with tempfile.TemporaryDirectory() as folder:
        model = AutoModelForCausalLM.from_pretrained(published_weights(folder), dtype=torch.float32)
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.to("cuda")
    if "--fixed" in sys.argv:
        model.train()
    finetune(model, DataLoader(clauses(96), batch_size=16, shuffle=True, collate_fn=collate))


if __name__ == "__main__":
    main()
