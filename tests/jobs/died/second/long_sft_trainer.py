"""Supervised fine-tuning on whole books' chapters with the Trainer; the byte-level vocabulary is small, the context is not.

After https://github.com/hiyouga/LlamaFactory/issues/1595 and https://github.com/nvidia-cosmos/cosmos-rl/issues/249
"""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

CONTEXT = 8192


class Chapters(torch.utils.data.Dataset):
    def __len__(self):
        return 12

    def __getitem__(self, i):
        ids = torch.arange(i, i + CONTEXT) % 256
        return {"input_ids": ids, "labels": ids.clone()}


def build():
    config = LlamaConfig(vocab_size=260, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
                         num_key_value_heads=4, max_position_embeddings=CONTEXT, use_cache=False)
    with torch.device("cuda"):
        return LlamaForCausalLM(config)


def main():
    arguments = TrainingArguments(
        output_dir="out", per_device_train_batch_size=1, gradient_accumulation_steps=2, max_steps=5, bf16=True, learning_rate=2e-5,
        gradient_checkpointing="--fixed" in sys.argv, logging_steps=1, save_strategy="no", report_to=[], disable_tqdm=True,
        optim="adamw_torch", dataloader_pin_memory=False)
    Trainer(model=build(), args=arguments, train_dataset=Chapters()).train()


if __name__ == "__main__":
    main()
