"""Supervised fine-tuning of a small Qwen3 on transcripts of an agent that calls tools. What the tools return is not learned."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainingArguments

FIXED = "--fixed" in sys.argv
VOCAB, MAX_LEN = 8000, 1024
TOOL_BEGIN, TOOL_END = 5, 6


class Transcripts(Dataset):
    def __init__(self, n, seed=0):
        self.n, self.seed = n, seed

    def __len__(self):
        return self.n

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed * 100_003 + i)
        ids = torch.randint(10, VOCAB, (MAX_LEN,), generator=g)
        labels = ids.clone()
        for start in range(96, MAX_LEN - 160, 256):     # one tool result of 128 tokens per turn
            ids[start], ids[start + 128] = TOOL_BEGIN, TOOL_END
            labels[start:start + 128] = -100
        return {"input_ids": ids, "labels": labels}


def build_model():
    cfg = Qwen3Config(vocab_size=VOCAB, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                      num_key_value_heads=4, head_dim=64, max_position_embeddings=2048, use_cache=False, tie_word_embeddings=True)
    return Qwen3ForCausalLM(cfg)


def main():
    per_device, accumulate = (2, 8) if FIXED else (16, 1)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out, max_steps=3, per_device_train_batch_size=per_device, gradient_accumulation_steps=accumulate,
            learning_rate=2e-5, warmup_steps=1, bf16=True, logging_steps=1, save_strategy="no", report_to=[],
            dataloader_num_workers=0, disable_tqdm=True)
        trainer = Trainer(model=build_model(), args=args, train_dataset=Transcripts(64))
        print(trainer.train().metrics)


if __name__ == "__main__":
    main()
