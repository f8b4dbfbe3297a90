"""Corrects spelling with a small BART under the Trainer, and counts the right tokens at the end of each epoch."""
import sys
import tempfile

import numpy
import torch
from torch.utils.data import Dataset
from transformers import BartConfig, BartForConditionalGeneration, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv
VOCABULARY = 8000


class Sentences(Dataset):
    """Sentences with errors, and the same without."""

    def __init__(self, n, seed):
        generator = torch.Generator().manual_seed(seed)
        self.right = torch.randint(4, VOCABULARY, (n, 64), generator=generator)
        self.wrong = torch.where(torch.rand(n, 64, generator=generator) < 0.1, self.right.flip(1), self.right)

    def __len__(self):
        return len(self.right)

    def __getitem__(self, k):
        return {"input_ids": self.wrong[k], "attention_mask": torch.ones(64, dtype=torch.long), "labels": self.right[k]}


def metrics(prediction):
    found = prediction.predictions
    if isinstance(found, tuple):
        found = found[0]
    if found.ndim == 3:
        found = found.argmax(-1)
    return {"accuracy": float(numpy.mean(found == prediction.label_ids))}


def best_tokens(outputs, labels):
    logits = outputs[0] if isinstance(outputs, tuple) else outputs
    return logits.argmax(-1)


def main():
    config = BartConfig(vocab_size=VOCABULARY, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
                        decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, max_position_embeddings=128)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder, num_train_epochs=1, per_device_train_batch_size=8, per_device_eval_batch_size=16, learning_rate=1e-4,
            eval_strategy="epoch", save_strategy="no", report_to=[], disable_tqdm=True, logging_steps=2, dataloader_pin_memory=False)
        options = {"preprocess_logits_for_metrics": best_tokens} if FIXED else {}
        trainer = Trainer(model=BartForConditionalGeneration(config), args=arguments, train_dataset=Sentences(48, 1),
                          eval_dataset=Sentences(320, 2), compute_metrics=metrics, **options)
        trainer.train()


main()
