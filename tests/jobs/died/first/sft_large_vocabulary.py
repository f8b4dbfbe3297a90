"""Supervised fine-tuning with Trainer; the model is small, and knows 150,000 tokens.

https://github.com/huggingface/trl/issues/3678
"""
import argparse
import tempfile

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true", help="micro-batches of one")
args = parser.parse_args()


class Conversations(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.randint(2, 150000, (512,))
        labels = ids.clone()
        labels[:128] = -100
        return {"input_ids": ids, "labels": labels}


model = Qwen2ForCausalLM(Qwen2Config(vocab_size=151936, hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4,
                                     num_key_value_heads=2, tie_word_embeddings=True))
with tempfile.TemporaryDirectory() as out:
    config = TrainingArguments(out, per_device_train_batch_size=1 if args.fixed else 8, gradient_accumulation_steps=8 if args.fixed else 1, max_steps=4,
                               report_to="none", save_strategy="no", disable_tqdm=True, bf16=True)
    Trainer(model=model, args=config, train_dataset=Conversations()).train()
