"""Fine-tunes BART to summarise council minutes with the Trainer, and evaluates with a metric of its own after each epoch."""
import sys
import tempfile

import torch
from transformers import BartConfig, BartForConditionalGeneration, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv


class Minutes(torch.utils.data.Dataset):
    def __init__(self, n, source=256, target=64):
        generator = torch.Generator().manual_seed(n)
        self.rows = [{"input_ids": torch.randint(5, 12000, (source,), generator=generator),
                      "labels": torch.randint(5, 12000, (target,), generator=generator)} for _ in range(n)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        return self.rows[k]


def collate(rows):
    batch = {key: torch.stack([r[key] for r in rows]) for key in rows[0]}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    return batch


def compute_metrics(prediction):
    guesses, labels = prediction.predictions, prediction.label_ids
    if isinstance(guesses, tuple):
        guesses = guesses[0]
    if guesses.ndim == 3:
        guesses = guesses.argmax(-1)
    return {"token_accuracy": float((guesses == labels).mean())}


def only_best(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(-1)


def main():
    config = BartConfig(vocab_size=12000, d_model=320, encoder_layers=4, decoder_layers=4, encoder_attention_heads=5, decoder_attention_heads=5,
                        encoder_ffn_dim=1280, decoder_ffn_dim=1280, max_position_embeddings=512)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(output_dir=folder, per_device_train_batch_size=8, per_device_eval_batch_size=8, max_steps=8, bf16=True,
                                      eval_strategy="steps", eval_steps=4, save_strategy="no", report_to=[], logging_steps=4, disable_tqdm=True)
        trainer = Trainer(model=BartForConditionalGeneration(config), args=arguments, train_dataset=Minutes(64), eval_dataset=Minutes(400),
                          data_collator=collate, compute_metrics=compute_metrics,
                          preprocess_logits_for_metrics=only_best if FIXED else None)
        trainer.train()


main()
