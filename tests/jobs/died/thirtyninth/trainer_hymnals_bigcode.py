import sys
import tempfile

import numpy as np
import torch
from transformers import GPTBigCodeConfig, GPTBigCodeForCausalLM, Trainer, TrainingArguments

# Hymn verses, 96 tokens each, our own sentencepiece with 12k pieces. Token accuracy on the dev hymnal.
VOCAB, LENGTH = 12000, 96
FIXED = "--fixed" in sys.argv


class Verses(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        self.ids = torch.randint(2, VOCAB, (n, LENGTH), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def token_accuracy(prediction):
    predicted, labels = prediction.predictions, prediction.label_ids
    if predicted.ndim == 3:
        predicted = predicted.argmax(-1)
    return {"token_accuracy": float(np.mean(predicted[:, :-1] == labels[:, 1:]))}


def most_likely(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(dim=-1)


config = GPTBigCodeConfig(vocab_size=VOCAB, n_positions=256, n_embd=256, n_layer=6, n_head=4, bos_token_id=0, eos_token_id=1,
                          use_cache=False)
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=8,
    per_device_eval_batch_size=8,
    max_steps=10,
    eval_strategy="steps",
    eval_steps=5,
    learning_rate=5e-4,
    logging_steps=5,
    save_strategy="no",
    report_to="none",
    disable_tqdm=True,
)
trainer = Trainer(
    model=GPTBigCodeForCausalLM(config),
    args=arguments,
    train_dataset=Verses(200, 1),
    eval_dataset=Verses(160, 2),
    compute_metrics=token_accuracy,
    preprocess_logits_for_metrics=most_likely if FIXED else None,
)
trainer.train()
