"""Sorts complaints to a railway with DistilBERT and the Trainer. The texts are tokenized once, all to the same length."""
import sys
import tempfile

import torch
from datasets import Dataset
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv
LIMIT = 64 if FIXED else 512  # complaints have 20 to 60 tokens


def tokenized(count):
    generator = torch.Generator().manual_seed(14)
    rows = {"input_ids": [], "attention_mask": [], "labels": []}
    for n in range(count):
        length = int(torch.randint(20, 60, (1,), generator=generator))
        ids = torch.randint(3, 7000, (length,), generator=generator).tolist()[:LIMIT]
        rows["input_ids"].append(ids + [0] * (LIMIT - length))
        rows["attention_mask"].append([1] * length + [0] * (LIMIT - length))
        rows["labels"].append(n % 11)
    return Dataset.from_dict(rows).with_format("torch")


def main():
    config = DistilBertConfig(vocab_size=7000, dim=256, n_layers=4, n_heads=4, hidden_dim=1024, num_labels=11)
    model = DistilBertForSequenceClassification(config)
    with tempfile.TemporaryDirectory() as directory:
        arguments = TrainingArguments(
            output_dir=directory, num_train_epochs=1, per_device_train_batch_size=32, learning_rate=1e-4, weight_decay=0.01, report_to=[],
            save_strategy="no", logging_steps=2, disable_tqdm=True)
        Trainer(model=model, args=arguments, train_dataset=tokenized(192)).train()


if __name__ == "__main__":
    main()
