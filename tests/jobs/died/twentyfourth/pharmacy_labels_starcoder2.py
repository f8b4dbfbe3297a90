"""Turns pharmacists' shorthand into full dosage instructions: a Starcoder2 fine-tune with the Hugging Face Trainer."""
import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import Starcoder2Config, Starcoder2ForCausalLM, Trainer, TrainingArguments, set_seed

set_seed(1234)
VOCAB, LENGTH = 16_384, 128


class DosageDataset(Dataset):
    """Shorthand and instruction in one sequence; only the instruction counts in the loss."""

    def __init__(self, size, seed):
        g = torch.Generator().manual_seed(seed)
        self.ids = torch.randint(10, VOCAB, (size, LENGTH), generator=g)
        self.starts = torch.randint(20, 60, (size,), generator=g)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        labels = self.ids[i].clone()
        labels[: self.starts[i]] = -100
        return {"input_ids": self.ids[i], "attention_mask": torch.ones(LENGTH, dtype=torch.long), "labels": labels}


def best_token(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(dim=-1)


def compute_metrics(eval_pred):
    predictions, labels = eval_pred
    if predictions.ndim == 3:
        predictions = np.stack([row.argmax(-1) for row in predictions])
    predictions, labels = predictions[:, :-1], labels[:, 1:]
    counted = labels != -100
    whole = ((predictions == labels) | ~counted).all(axis=1)
    return {"token_accuracy": float((predictions == labels)[counted].mean()), "exact_match": float(whole.mean())}


def main():
    config = Starcoder2Config(vocab_size=VOCAB, hidden_size=256, intermediate_size=1024, num_hidden_layers=4, num_attention_heads=8,
                              num_key_value_heads=2, max_position_embeddings=512, sliding_window=None, bos_token_id=1, eos_token_id=2)
    model = Starcoder2ForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, max_steps=8, per_device_train_batch_size=4, per_device_eval_batch_size=8, learning_rate=2e-4,
            eval_strategy="steps", eval_steps=4, logging_steps=2, save_strategy="no", report_to="none", disable_tqdm=True,
            dataloader_num_workers=0)
        trainer = Trainer(
            model=model, args=args, train_dataset=DosageDataset(64, 0), eval_dataset=DosageDataset(160, 1), compute_metrics=compute_metrics,
            preprocess_logits_for_metrics=best_token if "--fixed" in sys.argv else None)
        trainer.train()
        print(trainer.evaluate())


if __name__ == "__main__":
    main()
