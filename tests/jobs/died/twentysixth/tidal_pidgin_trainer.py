"""Continues the pretraining of a small Llama on pidgin of the coast; reports how often the next token is right."""
import sys
import tempfile

import numpy as np
import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

VOCAB = 16000
fixed = "--fixed" in sys.argv


class Blocks(Dataset):
    def __init__(self, blocks, length=128, seed=0):
        self.ids = torch.randint(5, VOCAB, (blocks, length), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i].clone()}


def compute_metrics(prediction):
    guesses, labels = prediction
    if guesses.ndim == 3:
        guesses = guesses.argmax(-1)
    guesses, labels = guesses[:, :-1].reshape(-1), labels[:, 1:].reshape(-1)
    keep = labels != -100
    return {"next_token_accuracy": float(np.mean(guesses[keep] == labels[keep]))}


def top_token(logits, labels):
    return logits.argmax(-1)


def main():
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=320, intermediate_size=864, num_hidden_layers=5, num_attention_heads=5,
                         num_key_value_heads=5, max_position_embeddings=512, tie_word_embeddings=True)
    model = LlamaForCausalLM(config)
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, per_device_eval_batch_size=8, max_steps=8, eval_strategy="steps",
        eval_steps=4, save_strategy="no", report_to=[], learning_rate=3e-4, warmup_steps=2, logging_steps=2, disable_tqdm=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=Blocks(64, seed=1), eval_dataset=Blocks(240, seed=2),
                      compute_metrics=compute_metrics, preprocess_logits_for_metrics=top_token if fixed else None)
    trainer.train()


if __name__ == "__main__":
    main()
