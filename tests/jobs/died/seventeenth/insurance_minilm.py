"""Distils a BERT of 12 layers into one of 4 for letters to an insurance company (30 departments)."""
import sys

import torch
import torch.nn.functional as F
from torch import nn
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup


def bert(layers, hidden):
    return BertForSequenceClassification(BertConfig(
        vocab_size=12000, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=hidden // 64, intermediate_size=4 * hidden,
        num_labels=30))


class DistillationLoss(nn.Module):
    def __init__(self, expert, temperature=4.0, alpha=0.7):
        super().__init__()
        self.expert, self.temperature, self.alpha = expert, temperature, alpha

    def soft_targets(self, batch):
        if "--fixed" in sys.argv:
            with torch.no_grad():
                return self.expert(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        return self.expert(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits

    def forward(self, batch, logits):
        T = self.temperature
        soft = F.kl_div(F.log_softmax(logits / T, -1), F.softmax(self.soft_targets(batch) / T, -1), reduction="batchmean") * T * T
        return self.alpha * soft + (1 - self.alpha) * F.cross_entropy(logits, batch["labels"])


def letters(count, size=24, length=192):
    g = torch.Generator().manual_seed(99)
    for _ in range(count):
        ids = torch.randint(10, 12000, (size, length), generator=g)
        mask = (torch.arange(length) < torch.randint(60, length, (size, 1), generator=g)).long()
        yield {"input_ids": ids.cuda(), "attention_mask": mask.cuda(), "labels": torch.randint(0, 30, (size,), generator=g).cuda()}


def main():
    expert, small = bert(12, 512).cuda().eval(), bert(4, 256).cuda().train()
    criterion = DistillationLoss(expert)
    optimizer = torch.optim.AdamW(small.parameters(), lr=2e-4)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, 8)
    for step, batch in enumerate(letters(8)):
        logits = small(input_ids=batch["input_ids"], attention_mask=batch["attention_mask"]).logits
        loss = criterion(batch, logits)
        loss.backward()
        nn.utils.clip_grad_norm_(small.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
