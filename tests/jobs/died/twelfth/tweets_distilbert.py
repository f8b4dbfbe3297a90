"""Finds irony in tweets with DistilBERT; the texts are tokenized in a map before training."""
import sys

import torch
from torch.utils.data import DataLoader
from transformers import DistilBertConfig, DistilBertForSequenceClassification, get_linear_schedule_with_warmup

FIXED = "--fixed" in sys.argv
VOCABULARY, LONGEST, BATCH, EPOCHS = 15000, 512, 48, 2


def tweet(n):
    """Stands for the tokenizer: a tweet has 20 to 60 tokens."""
    generator = torch.Generator().manual_seed(n)
    length = 20 + n * 7 % 41
    return {"input_ids": torch.randint(10, VOCABULARY, (length,), generator=generator), "labels": n % 2}


def padded(row, length):
    ids = row["input_ids"]
    missing = length - len(ids)
    return {"input_ids": torch.nn.functional.pad(ids, (0, missing)), "attention_mask": torch.nn.functional.pad(torch.ones_like(ids), (0, missing)),
            "labels": torch.tensor(row["labels"])}


def collate(rows):
    longest = max(len(row["input_ids"]) for row in rows)
    rows = [padded(row, longest) if FIXED else row for row in rows]
    return {k: torch.stack([row[k] for row in rows]) for k in rows[0]}


def dataset(n):
    rows = [tweet(k) for k in range(n)]
    return rows if FIXED else [padded(row, LONGEST) for row in rows]  # padding="max_length", truncation=True


def main():
    config = DistilBertConfig(vocab_size=VOCABULARY, dim=384, hidden_dim=1536, n_layers=6, n_heads=6)
    model = DistilBertForSequenceClassification(config).cuda()
    loader = DataLoader(dataset(3 * BATCH), batch_size=BATCH, shuffle=True, collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, EPOCHS * len(loader))
    model.train()
    for epoch in range(EPOCHS):
        for batch in loader:
            loss = model(**{k: v.cuda() for k, v in batch.items()}).loss
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        print("epoch", epoch, "loss", loss.item())


main()
