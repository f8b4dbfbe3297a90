# Is a comment from the audience friendly or a heckle? XLM-R (small, from scratch) + Trainer, as in the course notebook
import random
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Trainer, TrainingArguments, XLMRobertaConfig, XLMRobertaForSequenceClassification

PAD, MAX_LENGTH = 1, 512
fixed = "--fixed" in sys.argv


def tokenize(text_length, rng):
    """Stands for the tokenizer of the course: gives ids and mask."""
    ids = [0] + [rng.randrange(5, 8000) for _ in range(text_length)] + [2]
    ids = ids[:MAX_LENGTH]
    if fixed:
        return {"input_ids": ids, "attention_mask": [1] * len(ids)}
    missing = MAX_LENGTH - len(ids)
    return {"input_ids": ids + [PAD] * missing, "attention_mask": [1] * len(ids) + [0] * missing}


class Comments(Dataset):
    def __init__(self, size, seed):
        rng = random.Random(seed)
        self.rows = []
        for _ in range(size):
            row = tokenize(rng.randint(6, 70), rng)
            row["label"] = rng.randint(0, 1)
            self.rows.append(row)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return self.rows[i]


def collate(rows):
    longest = max(len(r["input_ids"]) for r in rows)
    ids = torch.full((len(rows), longest), PAD)
    mask = torch.zeros(len(rows), longest, dtype=torch.long)
    for i, r in enumerate(rows):
        n = len(r["input_ids"])
        ids[i, :n] = torch.tensor(r["input_ids"])
        mask[i, :n] = torch.tensor(r["attention_mask"])
    return {"input_ids": ids, "attention_mask": mask, "labels": torch.tensor([r["label"] for r in rows])}


config = XLMRobertaConfig(vocab_size=8000, hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536,
                          max_position_embeddings=520, num_labels=2)
model = XLMRobertaForSequenceClassification(config)
train_data = Comments(32 * 8, seed=1)

with tempfile.TemporaryDirectory() as folder:
    args = TrainingArguments(output_dir=folder, per_device_train_batch_size=32, num_train_epochs=1, learning_rate=3e-5, logging_steps=4,
                             save_strategy="no", report_to=[], disable_tqdm=True, dataloader_num_workers=0)
    trainer = Trainer(model=model, args=args, train_dataset=train_data, data_collator=collate)
    print(trainer.train())
