"""Urgency of midwives' notes (5 classes), RoBERTa trained from scratch on the hospital's machine."""
import sys
from contextlib import nullcontext

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import RobertaConfig, RobertaForSequenceClassification, get_linear_schedule_with_warmup

DEVICE = "cuda"
guard = torch.no_grad if "--fixed" in sys.argv else nullcontext


def make_split(n, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 9000, (n, 128), generator=g)
    lengths = torch.randint(20, 129, (n, 1), generator=g)
    mask = (torch.arange(128)[None] < lengths).long()
    return TensorDataset(ids * mask + (1 - mask), mask, torch.randint(0, 5, (n,), generator=g))


def evaluate(model, loader):
    model.eval()
    val_loss, correct, total = 0, 0, 0
    with guard():
        for ids, mask, y in loader:
            ids, mask, y = ids.to(DEVICE), mask.to(DEVICE), y.to(DEVICE)
            out = model(input_ids=ids, attention_mask=mask, labels=y)
            val_loss += out.loss
            correct += (out.logits.argmax(-1) == y).sum().item()
            total += len(y)
    return (val_loss / len(loader)).item(), correct / total


def train_epoch(model, loader, optimizer, scheduler):
    model.train()
    for ids, mask, y in loader:
        loss = model(input_ids=ids.to(DEVICE), attention_mask=mask.to(DEVICE), labels=y.to(DEVICE)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
    return loss.item()


def main():
    cfg = RobertaConfig(vocab_size=9000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                        max_position_embeddings=140, num_labels=5)
    model = RobertaForSequenceClassification(cfg).to(DEVICE)
    train = DataLoader(make_split(128, 1), batch_size=16, shuffle=True)
    valid = DataLoader(make_split(512, 2), batch_size=32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, 2 * len(train))
    for epoch in range(2):
        last = train_epoch(model, train, optimizer, scheduler)
        val_loss, accuracy = evaluate(model, valid)
        print(f"epoch {epoch} train {last:.3f} val {val_loss:.3f} acc {accuracy:.3f}")


main()
