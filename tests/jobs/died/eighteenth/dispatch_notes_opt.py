import sys
import tempfile

import numpy as np
import torch
from transformers import OPTConfig, OPTForCausalLM, Trainer, TrainingArguments, default_data_collator

"""Language model for ambulance dispatch notes. Next-word accuracy is what the control room asked for."""

VOCAB, LENGTH = 16000, 96


def notes(count, seed):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(4, VOCAB, (count, LENGTH), generator=generator)
    return [{"input_ids": row, "labels": row, "attention_mask": torch.ones_like(row)} for row in ids]


def next_word_accuracy(prediction):
    guess, labels = prediction.predictions, prediction.label_ids
    if guess.ndim == 3:
        guess = np.argmax(guess, -1)
    return {"accuracy": float((guess[:, :-1] == labels[:, 1:]).mean())}


def keep_best(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(-1)


def build():
    config = OPTConfig(vocab_size=VOCAB, hidden_size=256, ffn_dim=1024, num_hidden_layers=4, num_attention_heads=4, word_embed_proj_dim=256,
                       max_position_embeddings=256, pad_token_id=1, bos_token_id=2, eos_token_id=2, use_cache=False)
    return OPTForCausalLM(config)


if __name__ == "__main__":
    fixed = "--fixed" in sys.argv
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(out, per_device_train_batch_size=16, per_device_eval_batch_size=16, max_steps=12, eval_strategy="steps",
                                 eval_steps=6,
                                 learning_rate=3e-4, lr_scheduler_type="cosine", logging_steps=6, save_strategy="no", report_to="none",
                                 disable_tqdm=True)
        trainer = Trainer(model=build(), args=args, train_dataset=notes(256, 0), eval_dataset=notes(256, 1), data_collator=default_data_collator,
                          compute_metrics=next_word_accuracy, preprocess_logits_for_metrics=keep_best if fixed else None)
        trainer.train()
