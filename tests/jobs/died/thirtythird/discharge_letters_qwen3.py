"""Trains a small Qwen3 on discharge letters; tokens of the diagnosis count double, hence a loss of our own."""
import sys

import torch
from torch.utils.checkpoint import checkpoint
from transformers import Qwen3Config, Qwen3ForCausalLM

config = Qwen3Config(vocab_size=151936, hidden_size=320, intermediate_size=960, num_hidden_layers=6, num_attention_heads=5, num_key_value_heads=5,
                     head_dim=64, tie_word_embeddings=True, max_position_embeddings=1024)
model = Qwen3ForCausalLM(config).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.1)
gen = torch.Generator().manual_seed(1)


def letters(batch=3, length=640):
    ids = torch.randint(0, config.vocab_size, (batch, length), generator=gen)
    weight = torch.ones(batch, length)
    weight[:, 100:220] = 2.0
    return ids.cuda(), weight.cuda()


def token_nll(hidden, targets):
    logits = model.lm_head(hidden)
    logp = torch.log_softmax(logits, dim=-1)
    return -logp.gather(-1, targets.unsqueeze(-1)).squeeze(-1)


def weighted_loss(hidden, targets, weight):
    if "--fixed" in sys.argv:
        pieces = [checkpoint(token_nll, h, t, use_reentrant=False) for h, t in zip(hidden.split(64, 1), targets.split(64, 1))]
        nll = torch.cat(pieces, 1)
    else:
        nll = token_nll(hidden, targets)
    return (nll * weight).sum() / weight.sum()


model.train()
for step in range(6):
    ids, weight = letters()
    hidden = model.model(input_ids=ids).last_hidden_state
    loss = weighted_loss(hidden[:, :-1], ids[:, 1:], weight[:, 1:])
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    print("step", step, "weighted loss", loss.item())
