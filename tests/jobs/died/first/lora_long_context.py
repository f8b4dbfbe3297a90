"""LoRA with Trainer on long sequences: the adapters are small, and still it does not fit.

https://github.com/huggingface/peft/issues/1142
"""
import argparse
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true", help="with activation checkpointing")
args = parser.parse_args()


class LongTexts(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = torch.randint(0, 6000, (2048,))
        return {"input_ids": ids, "labels": ids}


config = Qwen2Config(vocab_size=6000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12, num_key_value_heads=4)
model = Qwen2ForCausalLM(config).bfloat16()
model = get_peft_model(model, LoraConfig(r=8, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM"))
if args.fixed:
    model.enable_input_require_grads()
with tempfile.TemporaryDirectory() as out:
    settings = TrainingArguments(out, per_device_train_batch_size=2, max_steps=5, bf16=True, gradient_checkpointing=args.fixed,
                                 gradient_checkpointing_kwargs={"use_reentrant": False}, report_to="none", save_strategy="no", disable_tqdm=True)
    Trainer(model=model, args=settings, train_dataset=LongTexts()).train()
