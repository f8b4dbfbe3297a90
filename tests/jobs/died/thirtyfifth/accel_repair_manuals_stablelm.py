"""Continued pretraining on repair manuals with Accelerate. The manuals are packed into blocks of 2048 tokens."""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import AutoModelForCausalLM, StableLmConfig, get_cosine_schedule_with_warmup

BLOCK = 2048


class PackedManuals(Dataset):
    def __init__(self, blocks=16, vocab=8000):
        stream = torch.randint(0, vocab, (blocks * BLOCK,), generator=torch.Generator().manual_seed(31))
        self.blocks = stream.view(blocks, BLOCK)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        return {"input_ids": self.blocks[i], "labels": self.blocks[i]}


def build():
    config = StableLmConfig(vocab_size=8000, hidden_size=512, intermediate_size=1376, num_hidden_layers=6, num_attention_heads=8,
                            num_key_value_heads=8, max_position_embeddings=BLOCK, use_cache=False)
    kind = "sdpa" if "--fixed" in sys.argv else "eager"
    return AutoModelForCausalLM.from_config(config, attn_implementation=kind)


def main():
    accelerator = Accelerator(mixed_precision="bf16", gradient_accumulation_steps=2)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1)
    schedule = get_cosine_schedule_with_warmup(optimizer, 1, 8)
    loader = DataLoader(PackedManuals(), batch_size=2, shuffle=True)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    model.train()
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        accelerator.print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
