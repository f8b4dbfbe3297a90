"""Teaches a small Qwen3 with a vocabulary of many languages to finish proverbs, with its own label smoothing loss."""
import sys

import torch
from torch.nn import functional as F
from transformers import Qwen3Config, Qwen3ForCausalLM

FIXED = "--fixed" in sys.argv
VOCABULARY = 60000


def build():
    config = Qwen3Config(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=768, num_hidden_layers=6, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=64, max_position_embeddings=512, tie_word_embeddings=True)
    return Qwen3ForCausalLM(config).cuda()


def smoothed(logits, labels, smoothing=0.1):
    logp = F.log_softmax(logits.float(), dim=-1)
    right = -logp.gather(-1, labels.clamp_min(0).unsqueeze(-1)).squeeze(-1)
    loss = (1 - smoothing) * right - smoothing * logp.mean(-1)
    keep = labels >= 0
    return (loss * keep).sum(), keep.sum()


def proverbs(n, batch=6, prompt=192, answer=32):
    generator = torch.Generator().manual_seed(4)
    for _ in range(n):
        ids = torch.randint(1, VOCABULARY, (batch, prompt + answer), generator=generator)
        labels = ids.clone()
        labels[:, :prompt] = -100
        yield ids, labels, answer


def training_loss(model, ids, labels, answer):
    with torch.autocast("cuda", torch.bfloat16):
        if FIXED:  # only the answers' places are scored
            logits = model(input_ids=ids, logits_to_keep=answer + 1, use_cache=False).logits
            labels = labels[:, -answer - 1:]
        else:
            logits = model(input_ids=ids, use_cache=False).logits
    total, count = smoothed(logits[:, :-1], labels[:, 1:])
    return total / count.clamp_min(1)


def main():
    model = build()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    for k, (ids, labels, answer) in enumerate(proverbs(4)):
        loss = training_loss(model, ids.cuda(), labels.cuda(), answer)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(k, loss.item())


main()
