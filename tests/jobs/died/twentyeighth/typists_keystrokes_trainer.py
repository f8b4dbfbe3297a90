"""Recognises typists by the rhythm of their keystrokes (key, dwell time bucket) with a small BERT and the Trainer."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

N_TYPISTS, KEYS, DWELL = 40, 104, 32


class Sessions(Dataset):
    def __init__(self, n, seed, length=256):
        g = torch.Generator().manual_seed(seed)
        self.keys = torch.randint(0, KEYS, (n, length), generator=g)
        self.dwell = torch.randint(0, DWELL, (n, length), generator=g)
        self.who = torch.randint(0, N_TYPISTS, (n,), generator=g)

    def __len__(self):
        return self.who.numel()

    def __getitem__(self, i):
        return dict(input_ids=self.keys[i], token_type_ids=self.dwell[i], labels=self.who[i])


def accuracy(p):
    return {"acc": float((p.predictions.argmax(-1) == p.label_ids).mean())}


config = BertConfig(vocab_size=KEYS, type_vocab_size=DWELL, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                    max_position_embeddings=256, num_labels=N_TYPISTS)
with tempfile.TemporaryDirectory() as folder:
    training = TrainingArguments(
        output_dir=folder,
        max_steps=10,
        per_device_train_batch_size=16,
        per_device_eval_batch_size=32 if "--fixed" in sys.argv else 1024,
        eval_strategy="steps",
        eval_steps=5,
        save_strategy="no",
        report_to="none",
        disable_tqdm=True,
        learning_rate=3e-4,
    )
    Trainer(BertForSequenceClassification(config), training, train_dataset=Sessions(200, 0), eval_dataset=Sessions(1024, 1),
            compute_metrics=accuracy).train()
