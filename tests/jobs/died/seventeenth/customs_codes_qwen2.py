"""Teaches a small Qwen2 to write the customs code of a good after its description; the vocabulary is that of the large models."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Qwen2Config, Qwen2ForCausalLM

cfg = Qwen2Config(vocab_size=151936, hidden_size=192, intermediate_size=512, num_hidden_layers=4, num_attention_heads=6,
                  num_key_value_heads=2, tie_word_embeddings=True, use_cache=False)
model = Qwen2ForCausalLM(cfg).cuda()
opt = torch.optim.AdamW(model.parameters(), lr=2e-4)
gen = torch.Generator().manual_seed(4)


def collate(lengths, longest=640):
    ids = torch.zeros(len(lengths), longest, dtype=torch.long)
    mask = torch.zeros_like(ids)
    for row, n in enumerate(lengths):
        ids[row, :n] = torch.randint(10, 151936, (n,), generator=gen)
        mask[row, :n] = 1
    labels = ids.masked_fill(mask == 0, -100)
    return ids.cuda(), mask.cuda(), labels.cuda()


def piece(hidden, target):
    return F.cross_entropy(model.lm_head(hidden).float(), target, ignore_index=-100, reduction="sum")


def loss_in_pieces(ids, mask, labels, size=256):
    hidden = model.model(input_ids=ids, attention_mask=mask).last_hidden_state[:, :-1].reshape(-1, cfg.hidden_size)
    target = labels[:, 1:].reshape(-1)
    total = sum(checkpoint(piece, h, t, use_reentrant=False) for h, t in zip(hidden.split(size), target.split(size)))
    return total / (target != -100).sum()


model.train()
for step in range(5):
    ids, mask, labels = collate([640, 512, 320, 600])
    if "--fixed" in sys.argv:
        loss = loss_in_pieces(ids, mask, labels)
    else:
        loss = model(input_ids=ids, attention_mask=mask, labels=labels).loss
    loss.backward()
    opt.step()
    opt.zero_grad(set_to_none=True)
    print("step", step, "loss", loss.item())
