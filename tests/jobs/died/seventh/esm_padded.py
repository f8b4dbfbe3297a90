"""Predicts where enzymes work in the cell from their sequence: ESM, trained whole, with a head of its own."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import EsmConfig, EsmModel

FIXED = "--fixed" in sys.argv
MAX_LENGTH, PLACES = 1024, 10
PADDING = "longest" if FIXED else "max_length"


def proteins(n):
    generator = torch.Generator().manual_seed(21)
    lengths = torch.randint(90, 330, (n,), generator=generator).tolist()
    return [(torch.randint(4, 24, (length,), generator=generator), k % PLACES) for k, length in enumerate(lengths)]


class Collator:
    """What a tokenizer does with padding=PADDING, truncation=True, max_length=MAX_LENGTH."""

    def __init__(self, padding, pad=1, begin=0, end=2):
        self.padding, self.pad, self.begin, self.end = padding, pad, begin, end

    def __call__(self, rows):
        texts = [torch.cat([torch.tensor([self.begin]), ids[:MAX_LENGTH - 2], torch.tensor([self.end])]) for ids, _ in rows]
        width = MAX_LENGTH if self.padding == "max_length" else max(map(len, texts))
        ids = torch.full((len(texts), width), self.pad)
        for row, text in zip(ids, texts):
            row[:len(text)] = text
        return {"input_ids": ids, "attention_mask": (ids != self.pad).long()}, torch.tensor([place for _, place in rows])


class Localizer(nn.Module):
    def __init__(self):
        super().__init__()
        config = EsmConfig(vocab_size=33, hidden_size=320, num_hidden_layers=6, num_attention_heads=20, intermediate_size=1280,
                           max_position_embeddings=1026, position_embedding_type="rotary", pad_token_id=1, mask_token_id=32,
                           token_dropout=False)
        self.esm = EsmModel(config, add_pooling_layer=False)
        self.drop = nn.Dropout(0.1)
        self.head = nn.Sequential(nn.Linear(320, 320), nn.Tanh(), nn.Linear(320, PLACES))

    def forward(self, input_ids, attention_mask):
        h = self.esm(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state
        weight = attention_mask.unsqueeze(-1).to(h.dtype)
        return self.head(self.drop((h * weight).sum(1) / weight.sum(1)))


model = Localizer().to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 5)
loader = DataLoader(proteins(96), batch_size=16, collate_fn=Collator(PADDING))
model.train()
for epoch in range(1):
    for step, (batch, place) in enumerate(loader):
        logits = model(**{k: v.to("cuda") for k, v in batch.items()})
        loss = nn.functional.cross_entropy(logits, place.to("cuda"))
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(epoch, step, tuple(batch["input_ids"].shape), loss.item())
