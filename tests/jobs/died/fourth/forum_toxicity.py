"""Marks toxic posts of a forum with a ModernBERT under Accelerate; the precision is an option of the command line, as in many example scripts."""
import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import MultilabelF1Score
from transformers import ModernBertConfig, ModernBertForSequenceClassification, get_cosine_schedule_with_warmup

LABELS = 6


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--precision", default="no", choices=["no", "bf16", "fp16"])
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=8e-5)
    found = parser.parse_args()
    if found.fixed:
        found.precision = "bf16"
    return found


def posts(n, length=320):
    return TensorDataset(torch.randint(4, 12000, (n, length)), torch.randint(0, 2, (n, LABELS)).float())


def build():
    config = ModernBertConfig(vocab_size=12000, hidden_size=256, intermediate_size=768, num_hidden_layers=8, num_attention_heads=4, num_labels=LABELS,
                              problem_type="multi_label_classification", max_position_embeddings=512, local_attention=128, pad_token_id=0,
                              bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2)
    return ModernBertForSequenceClassification._from_config(config, attn_implementation="sdpa")


def evaluate(accelerator, model, loader):
    score = MultilabelF1Score(num_labels=LABELS, validate_args=False).to(accelerator.device)
    model.eval()
    for ids, labels in loader:
        with torch.no_grad():
            logits = model(input_ids=ids).logits
        score.update(*accelerator.gather_for_metrics((logits.float(), labels.int())))
    return score.compute().item()


def main():
    chosen = options()
    torch.manual_seed(1)
    accelerator = Accelerator(mixed_precision=chosen.precision)
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=chosen.lr, weight_decay=0.01)
    train, val = DataLoader(posts(128), batch_size=chosen.batch, shuffle=True), DataLoader(posts(64), batch_size=chosen.batch)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, chosen.epochs * len(train))
    model, optimizer, train, val, schedule = accelerator.prepare(model, optimizer, train, val, schedule)
    for epoch in range(chosen.epochs):
        model.train()
        for ids, labels in train:
            loss = model(input_ids=ids, labels=labels).loss
            accelerator.backward(loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        accelerator.print("epoch", epoch, "loss", loss.item(), "F1", evaluate(accelerator, model, val))


if __name__ == "__main__":
    main()
