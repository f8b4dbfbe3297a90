"""Nursery rhymes: a GPT-Neo from scratch with the Trainer; reports next-token accuracy after each epoch."""
import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import GPTNeoConfig, GPTNeoForCausalLM, Trainer, TrainingArguments

VOCAB = 10000
BLOCK = 128


class Rhymes(Dataset):
    def __init__(self, n, seed):
        self.ids = torch.randint(0, VOCAB, (n, BLOCK), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, index):
        return {"input_ids": self.ids[index], "labels": self.ids[index]}


def best_token(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(dim=-1)


def compute_metrics(eval_preds):
    preds, labels = eval_preds
    if preds.ndim == 3:
        preds = preds.argmax(-1)
    hits = preds[:, :-1] == labels[:, 1:]
    return {"next_token_accuracy": float(np.mean(hits))}


def main():
    config = GPTNeoConfig(
        vocab_size=VOCAB, max_position_embeddings=BLOCK, hidden_size=192, num_layers=4, num_heads=6,
        attention_types=[[["global", "local"], 2]], window_size=64, bos_token_id=0, eos_token_id=0,
    )
    model = GPTNeoForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            num_train_epochs=1,
            per_device_train_batch_size=8,
            per_device_eval_batch_size=8,
            eval_strategy="epoch",
            save_strategy="no",
            logging_steps=5,
            learning_rate=5e-4,
            report_to="none",
        )
        trainer = Trainer(
            model=model,
            args=args,
            train_dataset=Rhymes(80, 1),
            eval_dataset=Rhymes(200, 2),
            compute_metrics=compute_metrics,
            preprocess_logits_for_metrics=best_token if "--fixed" in sys.argv else None,
        )
        trainer.train()


if __name__ == "__main__":
    main()
