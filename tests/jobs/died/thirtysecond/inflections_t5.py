"""Morphological inflection (SIGMORPHON style): lemma + features -> form, byte-level T5 from scratch with the HF Trainer."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import T5Config, T5ForConditionalGeneration, Trainer, TrainingArguments

fixed = "--fixed" in sys.argv


class Inflections(Dataset):
    def __init__(self, n, seed=0):
        g = torch.Generator().manual_seed(seed)
        self.src = torch.randint(3, 384, (n, 64), generator=g)
        self.tgt = torch.randint(3, 384, (n, 40), generator=g)

    def __len__(self):
        return len(self.src)

    def __getitem__(self, i):
        return {"input_ids": self.src[i], "attention_mask": torch.ones(64, dtype=torch.long), "labels": self.tgt[i]}


def get_model():
    config = T5Config(vocab_size=384, d_model=256, d_kv=64, d_ff=1024, num_layers=6, num_decoder_layers=3, num_heads=4,
                      feed_forward_proj="gated-gelu", decoder_start_token_id=0, pad_token_id=0, eos_token_id=1)
    return T5ForConditionalGeneration(config)


def get_args(out):
    # the shared task baseline says "batch of 512"
    per_device, accumulate = (64, 8) if fixed else (512, 1)
    return TrainingArguments(
        output_dir=out,
        per_device_train_batch_size=per_device,
        gradient_accumulation_steps=accumulate,
        learning_rate=1e-3,
        lr_scheduler_type="inverse_sqrt",
        warmup_steps=2,
        max_steps=3,
        logging_steps=1,
        save_strategy="no",
        report_to="none",
    )


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as out:
        trainer = Trainer(model=get_model(), args=get_args(out), train_dataset=Inflections(1536))
        result = trainer.train()
        print(result.global_step, "steps")
