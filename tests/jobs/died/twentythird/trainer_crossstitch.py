"""A small Qwen3 learns cross-stitch patterns written as words; the Trainer computes the accuracy of the next stitch after each stage."""
import sys
import tempfile

import numpy as np
import torch
from datasets import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainingArguments, set_seed

FIXED = "--fixed" in sys.argv
STITCHES = 5000


def patterns(rows, seed):
    data = torch.randint(0, STITCHES, (rows, 112), generator=torch.Generator().manual_seed(seed)).tolist()
    return Dataset.from_dict({"input_ids": data, "labels": data}).with_format("torch")


def compute_metrics(prediction):
    guess, truth = prediction.predictions, prediction.label_ids
    if guess.ndim == 3:
        guess = guess.argmax(-1)
    return {"next_stitch": float(np.mean(guess[:, :-1] == truth[:, 1:]))}


def only_choice(logits, labels):
    return (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)


def main():
    set_seed(21)
    config = Qwen3Config(vocab_size=STITCHES, hidden_size=320, intermediate_size=896, num_hidden_layers=6, num_attention_heads=5,
                         num_key_value_heads=5, head_dim=64, max_position_embeddings=256, tie_word_embeddings=True, use_cache=False)
    with tempfile.TemporaryDirectory() as where:
        arguments = TrainingArguments(
            where, per_device_train_batch_size=8, per_device_eval_batch_size=8, max_steps=8, eval_strategy="steps", eval_steps=4, learning_rate=3e-4,
            logging_steps=4, save_strategy="no", report_to=[], label_names=["labels"])
        trainer = Trainer(
            Qwen3ForCausalLM(config), arguments, train_dataset=patterns(64, 1), eval_dataset=patterns(400, 2), compute_metrics=compute_metrics,
            preprocess_logits_for_metrics=only_choice if FIXED else None)
        trainer.train()
        print(trainer.state.log_history[-2:])


if __name__ == "__main__":
    main()
