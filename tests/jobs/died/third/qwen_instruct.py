"""Instruction tuning of a small Qwen2 with HF Trainer. The vocabulary of 151,936 tokens makes the logits, in float32 in the loss, the largest thing.
The mended run has batches of 1 with accumulation. https://github.com/huggingface/transformers has many such threads."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

LENGTH = 1024


class Instructions(Dataset):
    def __len__(self):
        return 48

    def __getitem__(self, i):
        ids = torch.randint(0, 151936, (LENGTH,))
        labels = ids.clone()
        labels[:LENGTH // 4] = -100
        return {"input_ids": ids, "labels": labels, "attention_mask": torch.ones(LENGTH, dtype=torch.long)}


def main():
    per_device, accumulate = (1, 8) if "--fixed" in sys.argv else (8, 1)
    config = Qwen2Config(hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6, num_key_value_heads=2,
                         vocab_size=151936, tie_word_embeddings=True, max_position_embeddings=LENGTH)
    model = Qwen2ForCausalLM(config)
    with tempfile.TemporaryDirectory() as out:
        arguments = TrainingArguments(out, per_device_train_batch_size=per_device, gradient_accumulation_steps=accumulate, max_steps=5,
                                      bf16=True, learning_rate=1e-5, logging_steps=1, save_strategy="no", report_to=[],
                                      dataloader_num_workers=0, disable_tqdm=True)
        Trainer(model, arguments, train_dataset=Instructions()).train()


if __name__ == "__main__":
    main()
