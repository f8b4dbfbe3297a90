import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv
VOCAB_SIZE = 12000
BLOCK = 256


class LibrettoBlocks(Dataset):
    def __init__(self, n_blocks, seed):
        gen = torch.Generator().manual_seed(seed)
        self.blocks = torch.randint(0, VOCAB_SIZE, (n_blocks, BLOCK), generator=gen)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, idx):
        return {"input_ids": self.blocks[idx], "labels": self.blocks[idx]}


def compute_metrics(eval_pred):
    preds, labels = eval_pred
    if preds.ndim == 3:
        preds = np.stack([row.argmax(-1) for row in preds])
    hits = preds[:, :-1] == labels[:, 1:]
    return {"accuracy": float(hits.mean())}


def preprocess_logits_for_metrics(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(dim=-1)


def main():
    config = GPT2Config(vocab_size=VOCAB_SIZE, n_positions=BLOCK, n_embd=256, n_layer=4, n_head=4, bos_token_id=0, eos_token_id=0)
    model = GPT2LMHeadModel(config)
    with tempfile.TemporaryDirectory() as out:
        training_args = TrainingArguments(
            output_dir=out,
            max_steps=6,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=4,
            eval_strategy="steps",
            eval_steps=3,
            learning_rate=5e-4,
            logging_steps=3,
            save_strategy="no",
            report_to=[],
            dataloader_pin_memory=False,
        )
        trainer = Trainer(
            model=model,
            args=training_args,
            train_dataset=LibrettoBlocks(48, 1),
            eval_dataset=LibrettoBlocks(112, 2),
            compute_metrics=compute_metrics,
            preprocess_logits_for_metrics=preprocess_logits_for_metrics if FIXED else None,
        )
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
