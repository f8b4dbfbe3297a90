"""Sorts headlines into 40 sections with ALBERT, trained from a small configuration with its own Trainer class."""
import sys
from dataclasses import dataclass

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import AlbertConfig, AlbertForSequenceClassification, get_linear_schedule_with_warmup


@dataclass
class Settings:
    batch: int = 32
    accumulate: int = 1
    length: int = 128
    sections: int = 40
    lr: float = 3e-5
    updates: int = 4


class Headlines(Dataset):
    def __init__(self, n, settings):
        generator = torch.Generator().manual_seed(2)
        self.ids = torch.randint(5, 12000, (n, settings.length), generator=generator)
        self.labels = torch.randint(0, settings.sections, (n,), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, k):
        return {"input_ids": self.ids[k], "attention_mask": torch.ones_like(self.ids[k]), "labels": self.labels[k]}


class Trainer:
    def __init__(self, settings):
        self.settings = settings
        config = AlbertConfig(vocab_size=12000, embedding_size=128, hidden_size=512, num_hidden_layers=12, num_attention_heads=8,
                              intermediate_size=2048, num_labels=settings.sections)
        self.model = AlbertForSequenceClassification(config).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=settings.lr, weight_decay=0.01)
        self.schedule = get_linear_schedule_with_warmup(self.optimizer, 1, settings.updates)

    def update(self, batches):
        total = 0.0
        for batch in batches:
            out = self.model(**{k: v.to("cuda") for k, v in batch.items()})
            (out.loss / self.settings.accumulate).backward()
            total += out.loss.item() / self.settings.accumulate
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.schedule.step()
        self.optimizer.zero_grad()
        return total

    def fit(self, data):
        self.model.train()
        loader = iter(DataLoader(data, batch_size=self.settings.batch, shuffle=True))
        for n in range(self.settings.updates):
            batches = [next(loader) for _ in range(self.settings.accumulate)]
            print("update", n, "loss", self.update(batches), "lr", self.schedule.get_last_lr()[0])


if __name__ == "__main__":
    settings = Settings(batch=8, accumulate=4) if "--fixed" in sys.argv else Settings()
    Trainer(settings).fit(Headlines(128, settings))
