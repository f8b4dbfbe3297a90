"""Continues the training of a small GPT-2 on transcribed epitaphs; accuracy of the next token as the metric."""
import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

VOCAB = 16000


class Epitaphs(Dataset):
    def __init__(self, n, seed):
        self.ids = torch.randint(2, VOCAB, (n, 256), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def compute_metrics(pred):
    guesses, labels = pred.predictions, pred.label_ids
    if guesses.ndim == 3:
        guesses = np.stack([row.argmax(-1) for row in guesses])
    return {"accuracy": float((guesses[:, :-1] == labels[:, 1:]).mean())}


def keep_best_token(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(dim=-1)


def main():
    config = GPT2Config(vocab_size=VOCAB, n_positions=256, n_embd=256, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=1, use_cache=False)
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as folder:
        training = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=4, per_device_eval_batch_size=4, max_steps=12, eval_strategy="steps", eval_steps=6,
            learning_rate=5e-4, warmup_steps=2, logging_steps=3, save_strategy="no", report_to=[], disable_tqdm=True)
        extra = {"preprocess_logits_for_metrics": keep_best_token} if "--fixed" in sys.argv else {}
        trainer = Trainer(model=model, args=training, train_dataset=Epitaphs(64, 0), eval_dataset=Epitaphs(120, 1),
                          compute_metrics=compute_metrics, **extra)
        trainer.train()
        print(trainer.state.log_history[-2:])


main()
