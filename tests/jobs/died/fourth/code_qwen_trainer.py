"""Fine-tunes a small Qwen2 on short functions with the HF Trainer, and reports the accuracy of the next token after each epoch."""
import sys
import tempfile

import numpy
import torch
from torch.utils.data import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv
VOCABULARY = 12000


class Functions(Dataset):
    """Token ids of functions, cut to 192 tokens."""

    def __init__(self, n, seed):
        self.rows = torch.randint(0, VOCABULARY, (n, 192), generator=torch.Generator().manual_seed(seed))

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, k):
        return {"input_ids": self.rows[k], "labels": self.rows[k].clone(), "attention_mask": torch.ones(192, dtype=torch.long)}


def metrics(prediction):
    guessed, labels = prediction.predictions, prediction.label_ids
    if guessed.ndim == 3:
        guessed = guessed.argmax(-1)
    hits = guessed[:, :-1] == labels[:, 1:]
    return {"accuracy": float(numpy.mean(hits))}


def best_tokens(logits, labels):
    return logits.argmax(dim=-1)


def build_model():
    config = Qwen2Config(vocab_size=VOCABULARY, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
                         num_key_value_heads=2, max_position_embeddings=512, tie_word_embeddings=True, use_cache=False)
    return Qwen2ForCausalLM(config)


def main():
    torch.manual_seed(3)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=16,
            per_device_eval_batch_size=16,
            num_train_epochs=2,
            learning_rate=2e-4,
            warmup_steps=2,
            bf16=True,
            eval_strategy="epoch",
            save_strategy="no",
            logging_steps=2,
            report_to=[],
            disable_tqdm=True,
        )
        trainer = Trainer(
            model=build_model(),
            args=arguments,
            train_dataset=Functions(96, 0),
            eval_dataset=Functions(256, 1),
            compute_metrics=metrics,
            preprocess_logits_for_metrics=best_tokens if FIXED else None,
        )
        trainer.train()
        print(trainer.state.log_history[-1])


if __name__ == "__main__":
    main()
