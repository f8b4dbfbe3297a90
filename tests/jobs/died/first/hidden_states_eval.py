"""A text classifier with Trainer; the configuration returns all hidden states, which the evaluation then collects.

https://github.com/huggingface/transformers/issues/20887
"""
import sys
import tempfile

import torch
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

fixed = "--fixed" in sys.argv


class Reviews(torch.utils.data.Dataset):
    def __init__(self, n):
        self.n = n

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        return {"input_ids": torch.randint(100, 20000, (256,)), "attention_mask": torch.ones(256, dtype=torch.long), "labels": i % 2}


def compute_metrics(p):
    predictions = p.predictions[0] if isinstance(p.predictions, tuple) else p.predictions
    return {"accuracy": float((predictions.argmax(-1) == p.label_ids).mean())}


config = BertConfig(vocab_size=20000, hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536, num_labels=2,
                    output_hidden_states=not fixed)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, per_device_train_batch_size=16, per_device_eval_batch_size=16, num_train_epochs=1, eval_strategy="epoch",
                                  report_to=[], save_strategy="no", disable_tqdm=True)
    Trainer(BertForSequenceClassification(config), arguments, train_dataset=Reviews(80), eval_dataset=Reviews(400),
            compute_metrics=compute_metrics).train()
