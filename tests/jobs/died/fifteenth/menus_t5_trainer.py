"""Fine-tunes T5 to translate menus, with the Trainer; accuracy by token on the validation part."""
import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments

VOCABULARY = 12000


class Menus(Dataset):
    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        return {"input_ids": torch.randint(2, VOCABULARY, (64,), generator=g), "attention_mask": torch.ones(64, dtype=torch.long),
                "labels": torch.randint(2, VOCABULARY, (48,), generator=g)}


def keep_best_token(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(-1)


def compute_metrics(prediction):
    guess, labels = prediction.predictions, prediction.label_ids
    if isinstance(guess, tuple):
        guess = guess[0]
    if guess.ndim == 3:
        guess = np.argmax(guess, axis=-1)
    mask = labels != -100
    return {"token_accuracy": float((guess == labels)[mask].mean())}


def main():
    config = T5Config(vocab_size=VOCABULARY, d_model=256, d_kv=32, d_ff=768, num_layers=4, num_heads=8, decoder_start_token_id=0)
    model = T5ForConditionalGeneration(config)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(output_dir=folder, per_device_train_batch_size=16, per_device_eval_batch_size=16, max_steps=8,
                                      learning_rate=3e-4, eval_strategy="steps", eval_steps=4, save_strategy="no", report_to=[],
                                      disable_tqdm=True, logging_steps=4)
        trainer = Trainer(model=model, args=arguments, train_dataset=Menus(400, 0), eval_dataset=Menus(448, 5000), compute_metrics=compute_metrics,
                          preprocess_logits_for_metrics=keep_best_token if "--fixed" in sys.argv else None)
        trainer.train()
        print({k: v for k, v in trainer.state.log_history[-1].items() if "runtime" not in k})


if __name__ == "__main__":
    main()
