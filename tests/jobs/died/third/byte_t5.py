"""A byte-level T5 with short texts: nearly all of the memory is weights, gradients and AdamW's two states. The run before used Adafactor.
https://shahid-mo.github.io/posts/where_v3 explains the four parts."""
import argparse

import torch
from transformers import Adafactor, T5Config, T5ForConditionalGeneration

p = argparse.ArgumentParser()
p.add_argument("--fixed", action="store_true")
p.add_argument("--max-steps", type=int, default=6)
p.add_argument("--batch", type=int, default=2)
a = p.parse_args()

config = T5Config(vocab_size=384, d_model=768, d_ff=3072, num_layers=8, num_decoder_layers=4, num_heads=12, d_kv=64, decoder_start_token_id=0)
model = T5ForConditionalGeneration(config).to("cuda")
print("%.0f M parameters" % (sum(x.numel() for x in model.parameters()) / 1e6))
if a.fixed:
    optimizer = Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False)
else:
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)

for step in range(a.max_steps):
    source = torch.randint(3, 259, (a.batch, 128), device="cuda")
    target = torch.randint(3, 259, (a.batch, 64), device="cuda")
    loss = model(input_ids=source, labels=target).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, round(loss.item(), 3))
