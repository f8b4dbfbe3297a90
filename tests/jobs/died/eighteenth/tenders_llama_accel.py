"""Continue training a Llama on public tenders with Accelerate; long documents, so gradient checkpointing is on."""
import sys
import tempfile

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM, get_cosine_schedule_with_warmup

CONTEXT = 1024


def base_checkpoint(folder):
    config = LlamaConfig(vocab_size=8000, hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
                         num_key_value_heads=4, max_position_embeddings=2048)
    LlamaForCausalLM(config).save_pretrained(folder)


def packed_tenders(count):
    generator = torch.Generator().manual_seed(31)
    return [torch.randint(3, 8000, (CONTEXT,), generator=generator) for _ in range(count)]


def collate(rows):
    ids = torch.stack(rows)
    return {"input_ids": ids, "labels": ids.clone()}


def main():
    accelerator = Accelerator(gradient_accumulation_steps=2)
    with tempfile.TemporaryDirectory() as folder:
        base_checkpoint(folder)
        model = LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if "--fixed" in sys.argv:
        model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, betas=(0.9, 0.95), weight_decay=0.1)
    loader = DataLoader(packed_tenders(48), batch_size=4, shuffle=True, collate_fn=collate)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 12)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if step % 4 == 3:
            accelerator.print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
