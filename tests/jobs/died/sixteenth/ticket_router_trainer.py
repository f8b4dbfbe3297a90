"""Routes support tickets of a water utility to one of 40 teams. HF Trainer, DistilBERT from scratch."""
import sys
import tempfile

import numpy as np
import torch
from transformers import DistilBertConfig, DistilBertForSequenceClassification, Trainer, TrainingArguments, set_seed

EVAL_BATCH = 32 if "--fixed" in sys.argv else 1024
TEAMS, MAX_LEN = 40, 256


class Tickets(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(5, 12000, (n, MAX_LEN), generator=g)
        self.team = torch.randint(0, TEAMS, (n,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(MAX_LEN, dtype=torch.long), "labels": self.team[i]}


def accuracy(prediction):
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


set_seed(3)
model = DistilBertForSequenceClassification(DistilBertConfig(
    vocab_size=12000, dim=384, hidden_dim=1536, n_layers=4, n_heads=6, num_labels=TEAMS, max_position_embeddings=MAX_LEN))

with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=model,
        args=TrainingArguments(
            output_dir=folder, max_steps=12, per_device_train_batch_size=16, per_device_eval_batch_size=EVAL_BATCH, learning_rate=3e-5,
            eval_strategy="steps", eval_steps=6, logging_steps=3, save_strategy="no", report_to="none", disable_tqdm=True),
        train_dataset=Tickets(400, seed=1),
        eval_dataset=Tickets(2048, seed=2),
        compute_metrics=accuracy,
    )
    trainer.train()
    print(trainer.evaluate())
