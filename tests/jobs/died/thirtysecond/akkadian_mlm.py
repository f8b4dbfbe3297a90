# Masked language model on transliterated Akkadian letters (ORACC), fills in broken signs.
import sys, tempfile
import numpy as np
import torch
from transformers import BertConfig, BertForMaskedLM, Trainer, TrainingArguments

SIGNS = 9000
MAXLEN = 128


def letters(n, seed):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(n):
        ids = torch.randint(5, SIGNS, (MAXLEN,), generator=g)
        broken = torch.rand(MAXLEN, generator=g) < 0.15
        labels = torch.where(broken, ids, torch.full_like(ids, -100))
        rows.append({"input_ids": ids.masked_fill(broken, 4), "attention_mask": torch.ones_like(ids), "labels": labels})
    return rows


def compute_metrics(eval_pred):
    preds, labels = eval_pred
    if preds.ndim == 3:
        preds = np.argmax(preds, axis=-1)
    keep = labels != -100
    return {"restored": float((preds[keep] == labels[keep]).mean())}


def keep_best_sign(logits, labels):
    return logits.argmax(-1)


config = BertConfig(vocab_size=SIGNS, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                    max_position_embeddings=MAXLEN)
with tempfile.TemporaryDirectory() as tmp:
    targs = TrainingArguments(output_dir=tmp, per_device_train_batch_size=16, per_device_eval_batch_size=32, num_train_epochs=1,
                              eval_strategy="epoch", save_strategy="no", logging_steps=4, report_to="none", learning_rate=2e-4)
    trainer = Trainer(
        model=BertForMaskedLM(config),
        args=targs,
        train_dataset=letters(160, 1),
        eval_dataset=letters(480, 2),
        compute_metrics=compute_metrics,
        preprocess_logits_for_metrics=keep_best_sign if "--fixed" in sys.argv else None,
    )
    trainer.train()
