"""Simplifies law texts with T5 under Accelerate. Batches are padded to their longest text; nobody truncated, and the seventh batch has an annex.
https://github.com/OpenNMT/OpenNMT-py/issues/1161 , https://github.com/k2-fsa/icefall/issues/521"""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import T5Config, T5ForConditionalGeneration

LIMIT = 256 if "--fixed" in sys.argv else None
LENGTHS = [180, 220, 160, 240, 200, 230, 1400, 210, 190]


def texts():
    generator = torch.Generator().manual_seed(4)
    for n, longest in enumerate(LENGTHS):
        for k in range(8):
            length = longest if k == 3 else 120 + 5 * k
            yield torch.randint(2, 16000, (length,), generator=generator)


def collate(rows):
    rows = [r[:LIMIT] for r in rows]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    labels = torch.nn.utils.rnn.pad_sequence([r[:64] for r in rows], batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (ids > 0).long(), "labels": labels}


def main():
    accelerator = Accelerator(mixed_precision="bf16")
    model = T5ForConditionalGeneration(T5Config(vocab_size=16000, d_model=384, d_kv=64, d_ff=1024, num_layers=6, num_heads=6,
                                                feed_forward_proj="gated-gelu", decoder_start_token_id=0))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    loader = DataLoader(list(texts()), batch_size=8, collate_fn=collate)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for step, batch in enumerate(loader):
        loss = model(**batch).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(step, tuple(batch["input_ids"].shape), loss.item())


main()
