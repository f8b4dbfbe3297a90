"""Fine-tunes a T5 with gradient accumulation, since a batch of 64 does not fit.

https://discuss.pytorch.org/t/gpu-memory-increase-while-i-wanna-to-backward-with-accumulative-loss/43284
"""
import sys

import torch
from transformers import T5Config, T5ForConditionalGeneration

fixed = "--fixed" in sys.argv
config = T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=1024, num_layers=6, num_heads=6, decoder_start_token_id=0)
model = T5ForConditionalGeneration(config).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
ACCUMULATION = 8


def get_batch(size=8):
    return torch.randint(2, 32000, (size, 256), device="cuda"), torch.randint(2, 32000, (size, 64), device="cuda")


model.train()
for step in range(4):
    total_loss = 0
    for micro in range(ACCUMULATION):
        source, target = get_batch()
        loss = model(input_ids=source, labels=target).loss / ACCUMULATION
        if fixed:
            loss.backward()
            total_loss += loss.item()
        else:
            total_loss = total_loss + loss
    if not fixed:
        total_loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, float(total_loss))
