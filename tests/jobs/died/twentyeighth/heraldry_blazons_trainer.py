"""Fine-tunes a GPT-2 on blazons of coats of arms; accuracy of the next word is reported after each epoch."""
import sys
import tempfile

import numpy as np
import torch
from transformers import GPT2Config, GPT2LMHeadModel, Trainer, TrainingArguments

TINCTURES = 4000


class BlazonDataset(torch.utils.data.Dataset):
    def __init__(self, n, seed):
        self.ids = torch.randint(0, TINCTURES, (n, 128), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}


def compute_metrics(eval_pred):
    predictions, labels = eval_pred
    if predictions.ndim == 3:
        predictions = np.stack([p.argmax(-1) for p in predictions])
    return {"accuracy": float((predictions[:, :-1] == labels[:, 1:]).mean())}


def keep_best_word(logits, labels):
    return logits.argmax(-1)


def main():
    model = GPT2LMHeadModel(GPT2Config(vocab_size=TINCTURES, n_positions=128, n_embd=256, n_layer=4, n_head=4, use_cache=False))
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(output_dir=out, per_device_train_batch_size=8, per_device_eval_batch_size=16, num_train_epochs=1,
                                 eval_strategy="epoch", save_strategy="no", logging_steps=5, report_to="none", disable_tqdm=True)
        extra = {"preprocess_logits_for_metrics": keep_best_word} if "--fixed" in sys.argv else {}
        trainer = Trainer(model=model, args=args, train_dataset=BlazonDataset(96, 0), eval_dataset=BlazonDataset(640, 1),
                          compute_metrics=compute_metrics, **extra)
        trainer.train()


if __name__ == "__main__":
    main()
