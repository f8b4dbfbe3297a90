"""Continues the pretraining of a small Llama with a context of 8192. SDPA is there, bf16 is there, gradient checkpointing is not
(--gradient-checkpointing was lost from the launch script). https://github.com/nvidia-cosmos/cosmos-rl/issues/249"""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

context = 8192
cfg = LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=16, num_attention_heads=12, num_key_value_heads=4, vocab_size=8000,
                  max_position_embeddings=context, use_cache=False)
torch.manual_seed(1)
model = LlamaForCausalLM(cfg).to("cuda", torch.bfloat16)
if "--fixed" in sys.argv:
    model.gradient_checkpointing_enable()
model.train()
optim = torch.optim.AdamW(model.parameters(), lr=2e-4, betas=(0.9, 0.95))
sched = torch.optim.lr_scheduler.CosineAnnealingLR(optim, 1000)


def stream(documents):
    for _ in range(documents):
        yield torch.randint(0, cfg.vocab_size, (1, context))


for n, tokens in enumerate(stream(6)):
    tokens = tokens.cuda()
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    optim.step()
    sched.step()
    optim.zero_grad()
    print(f"{n:4d} {loss.item():.3f}", flush=True)
