"""Continued pre-training of a small model with a vocabulary of a quarter of a million.

https://github.com/EvolvingLMMs-Lab/LongVA/pull/19
"""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import GemmaConfig, GemmaForCausalLM

fixed = "--fixed" in sys.argv
cfg = GemmaConfig(vocab_size=256000, hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=1,
                  head_dim=64)
model = GemmaForCausalLM(cfg).to("cuda", torch.bfloat16)
opt = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)


def piece(hidden, labels):
    return F.cross_entropy(model.lm_head(hidden).float(), labels, reduction="sum")


for step in range(6):
    ids = torch.randint(0, 256000, (4, 1024), device="cuda")
    if fixed:
        hidden = model.model(input_ids=ids).last_hidden_state[:, :-1].flatten(0, 1)
        labels = ids[:, 1:].flatten()
        loss = sum(checkpoint(piece, h, t, use_reentrant=False) for h, t in zip(hidden.split(256), labels.split(256))) / len(labels)
    else:
        logits = model(input_ids=ids).logits.float()
        loss = F.cross_entropy(logits[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(step, loss.item())
