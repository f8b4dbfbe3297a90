"""Pretrains a tiny Granite on logs of Morse operators (dots, dashes, gaps in 10 ms units)."""
import sys

import torch
from transformers import AutoModelForCausalLM, GraniteConfig

SYMBOLS, WINDOW, BATCH = 64, 2048, 2

settings = dict(
    vocab_size=SYMBOLS,
    hidden_size=384,
    intermediate_size=1024,
    num_hidden_layers=6,
    num_attention_heads=8,
    num_key_value_heads=4,
    max_position_embeddings=WINDOW,
    attention_dropout=0.1,
)
backend = "sdpa" if "--fixed" in sys.argv else "eager"
model = AutoModelForCausalLM.from_config(GraniteConfig(**settings), attn_implementation=backend).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1)
warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 4))
log = torch.randint(0, SYMBOLS, (400_000,), generator=torch.Generator().manual_seed(1844))


def windows(rng):
    starts = torch.randint(0, len(log) - WINDOW, (BATCH,), generator=rng)
    return torch.stack([log[s:s + WINDOW] for s in starts.tolist()]).cuda(non_blocking=True)


rng = torch.Generator().manual_seed(2)
model.train()
for step in range(8):
    x = windows(rng)
    loss = model(x, labels=x, use_cache=False).loss
    loss.backward()
    optimizer.step()
    warmup.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 2 == 0:
        print(f"{step:3d} {loss.item():.3f}")
