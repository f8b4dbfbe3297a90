"""Part-of-speech tags for Oscan and Umbrian inscriptions: a small ModernBERT from scratch on character pieces."""
import random
import sys

import torch
from torch.utils.data import DataLoader
from transformers import ModernBertConfig, ModernBertForTokenClassification, get_linear_schedule_with_warmup

FIXED = "--fixed" in sys.argv
TAGS = ["NOUN", "VERB", "ADJ", "PRON", "ADP", "CCONJ", "NUM", "X"]
PAD = 0

random.seed(11)
gen = torch.Generator().manual_seed(11)


def inscription():
    n = random.randint(18, 150)          # most stones carry a line or two
    return {"ids": torch.randint(5, 900, (n,), generator=gen), "tags": torch.randint(0, len(TAGS), (n,), generator=gen)}


corpus = [inscription() for _ in range(320)]


class Collator:
    def __init__(self, max_length=1024):
        self.max_length = max_length

    def __call__(self, rows):
        width = self.max_length
        if FIXED:
            width = min(width, max(len(r["ids"]) for r in rows))
        ids = torch.full((len(rows), width), PAD)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        tags = torch.full((len(rows), width), -100)
        for i, r in enumerate(rows):
            n = min(len(r["ids"]), width)
            ids[i, :n], mask[i, :n], tags[i, :n] = r["ids"][:n], 1, r["tags"][:n]
        return {"input_ids": ids, "attention_mask": mask, "labels": tags}


def build():
    config = ModernBertConfig(vocab_size=900, hidden_size=384, intermediate_size=768, num_hidden_layers=6, num_attention_heads=6,
                              max_position_embeddings=1024, num_labels=len(TAGS), pad_token_id=PAD, cls_token_id=1, sep_token_id=2,
                              bos_token_id=1, eos_token_id=2, local_attention=64, attn_implementation="sdpa")
    return ModernBertForTokenClassification(config)


def train(epochs=1):
    model = build().to("cuda")
    loader = DataLoader(corpus, batch_size=32, shuffle=True, collate_fn=Collator())
    optim = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.01)
    sched = get_linear_schedule_with_warmup(optim, 3, epochs * len(loader))
    model.train()
    for epoch in range(epochs):
        for i, batch in enumerate(loader):
            out = model(**{k: v.to("cuda") for k, v in batch.items()})
            out.loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optim.step()
            sched.step()
            optim.zero_grad()
            print(f"epoch {epoch} batch {i}: {out.loss.item():.3f}")
    return model


train()
