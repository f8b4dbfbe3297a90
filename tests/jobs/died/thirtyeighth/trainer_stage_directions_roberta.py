"""Masked words in stage directions of plays: RoBERTa pretraining with the Hugging Face Trainer, accuracy on held-out plays."""
import sys
import tempfile

import torch
from transformers import RobertaConfig, RobertaForMaskedLM, Trainer, TrainingArguments

VOCAB, LENGTH, MASK = 12000, 128, 4


class Directions(torch.utils.data.Dataset):
    def __init__(self, count, seed):
        generator = torch.Generator().manual_seed(seed)
        self.words = torch.randint(5, VOCAB, (count, LENGTH), generator=generator)
        self.hidden = torch.rand(count, LENGTH, generator=generator) < 0.15

    def __len__(self):
        return len(self.words)

    def __getitem__(self, index):
        words, hidden = self.words[index], self.hidden[index]
        return {"input_ids": words.masked_fill(hidden, MASK), "attention_mask": torch.ones_like(words), "labels": words.masked_fill(~hidden, -100)}


def compute_metrics(prediction):
    guess, labels = prediction.predictions, prediction.label_ids
    if guess.ndim == 3:
        guess = guess.argmax(-1)
    known = labels != -100
    return {"masked_accuracy": float((guess[known] == labels[known]).mean())}


def best_words(logits, labels):
    return logits.argmax(-1)


config = RobertaConfig(vocab_size=VOCAB, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                       max_position_embeddings=LENGTH + 2, pad_token_id=1)
arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=16,
    per_device_eval_batch_size=16,
    max_steps=10,
    learning_rate=5e-4,
    warmup_steps=2,
    logging_steps=5,
    save_strategy="no",
    eval_strategy="steps",
    eval_steps=10,
    report_to=[],
    disable_tqdm=True,
)
trainer = Trainer(
    model=RobertaForMaskedLM(config),
    args=arguments,
    train_dataset=Directions(400, 1),
    eval_dataset=Directions(360, 2),
    compute_metrics=compute_metrics,
    preprocess_logits_for_metrics=best_words if "--fixed" in sys.argv else None,
)
trainer.train()
print(trainer.state.log_history[-1])
