"""Marks ingredients and quantities in recipes: DistilBERT for token classification with the Trainer, evaluated while it trains."""
import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import DistilBertConfig, DistilBertForTokenClassification, Trainer, TrainingArguments

LABELS = ["O", "B-FOOD", "I-FOOD", "B-QUANTITY", "I-QUANTITY", "B-UNIT", "I-UNIT", "B-STATE"]


class Recipes(Dataset):
    """Already tokenized, padded to 192."""

    def __init__(self, n, seed):
        generator = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 8000, (n, 192), generator=generator)
        self.labels = torch.randint(len(LABELS), (n, 192), generator=generator)
        self.labels[:, 0] = -100
        self.mask = torch.ones(192, dtype=torch.long)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, k):
        return {"input_ids": self.ids[k], "attention_mask": self.mask, "labels": self.labels[k]}


def compute_metrics(result):
    predictions = np.argmax(result.predictions, -1)
    used = result.label_ids != -100
    entity = used & (result.label_ids > 0)
    return {"accuracy": float((predictions == result.label_ids)[used].mean()), "recall": float((predictions == result.label_ids)[entity].mean())}


def build_model():
    config = DistilBertConfig(vocab_size=8000, dim=384, n_layers=4, n_heads=6, hidden_dim=1536, num_labels=len(LABELS),
                              id2label=dict(enumerate(LABELS)), label2id={label: n for n, label in enumerate(LABELS)})
    return DistilBertForTokenClassification(config)


def main():
    fixed = "--fixed" in sys.argv
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            max_steps=8,
            eval_strategy="steps",
            eval_steps=4,
            save_strategy="no",
            per_device_train_batch_size=8,
            per_device_eval_batch_size=16 if fixed else 512,
            learning_rate=3e-5,
            warmup_steps=2,
            weight_decay=0.01,
            logging_steps=2,
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = Trainer(model=build_model(), args=arguments, train_dataset=Recipes(64, 0), eval_dataset=Recipes(1024, 1),
                          compute_metrics=compute_metrics)
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
