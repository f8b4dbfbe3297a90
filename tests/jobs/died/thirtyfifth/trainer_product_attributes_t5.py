"""Extracts attributes (colour, material, size, ...) from product descriptions with a T5 fine-tuned by the Trainer."""
import sys
import tempfile

import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration

OPTIMIZER = "adafactor" if "--fixed" in sys.argv else "adamw_torch"


def rows(n, seed):
    g = torch.Generator().manual_seed(seed)
    make = lambda k: torch.randint(2, 20000, (k,), generator=g).tolist()
    return [{"input_ids": make(96), "attention_mask": [1] * 96, "labels": make(24)} for _ in range(n)]


class Collator:
    """All descriptions were cut to the same length by the tokenisation job."""

    def __call__(self, features):
        return {key: torch.tensor([f[key] for f in features]) for key in features[0]}


def get_model():
    config = T5Config(vocab_size=20000, d_model=640, d_kv=64, d_ff=2560, num_layers=10, num_decoder_layers=8, num_heads=10,
                      feed_forward_proj="gated-gelu", decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    with torch.device("cuda"):
        return T5ForConditionalGeneration(config)


def main():
    with tempfile.TemporaryDirectory() as out:
        args = Seq2SeqTrainingArguments(output_dir=out, per_device_train_batch_size=2, gradient_accumulation_steps=2, max_steps=4,
                                        learning_rate=1e-4, optim=OPTIMIZER, lr_scheduler_type="constant", logging_steps=1,
                                        save_strategy="no", report_to=[], max_grad_norm=0.0)
        trainer = Seq2SeqTrainer(model=get_model(), args=args, train_dataset=rows(64, 0), data_collator=Collator())
        trainer.train()
        print("steps", trainer.state.global_step)


if __name__ == "__main__":
    main()
