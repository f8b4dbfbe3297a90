"""Pretrains a small Llama on announcements of trams in thirty languages; one tokenizer for all of them."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
BATCH, LENGTH, VOCAB = 8, 512, 96_000


def make_model():
    return LlamaForCausalLM(LlamaConfig(
        vocab_size=VOCAB, hidden_size=320, intermediate_size=864, num_hidden_layers=5, num_attention_heads=5, num_key_value_heads=5,
        max_position_embeddings=LENGTH, tie_word_embeddings=True, use_cache=False))


def piece(states, labels, head):
    return F.cross_entropy(head(states), labels, reduction="sum")


def lm_loss(model, ids):
    if not FIXED:
        return model(input_ids=ids, labels=ids).loss
    states = model.model(input_ids=ids).last_hidden_state[:, :-1].reshape(-1, 320)
    labels = ids[:, 1:].reshape(-1)
    parts = [checkpoint(piece, s, l, model.lm_head, use_reentrant=False) for s, l in zip(states.split(256), labels.split(256))]
    return sum(parts) / labels.numel()


def corpus():
    gen = torch.Generator().manual_seed(1881)
    while True:
        yield torch.randint(0, VOCAB, (BATCH, LENGTH), generator=gen)


def train(steps=6):
    model = make_model().cuda().train()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() == 1]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=6e-4, betas=(0.9, 0.95))
    for step, ids in zip(range(steps), corpus()):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = lm_loss(model, ids.cuda())
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        print("step", step, "tokens", (step + 1) * BATCH * LENGTH, "loss", loss.item())


if __name__ == "__main__":
    train()
