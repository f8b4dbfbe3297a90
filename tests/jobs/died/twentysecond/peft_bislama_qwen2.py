"""Teaches a Qwen2 some Bislama with LoRA. The vocabulary has all its words already."""
import sys
import tempfile

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM, Trainer, TrainingArguments, default_data_collator

VOCAB = 56_000
HIDDEN = 704


def lora_config():
    options = dict(r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM",
                   target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    if "--fixed" not in sys.argv:
        options["modules_to_save"] = ["embed_tokens", "lm_head"]
    return LoraConfig(**options)


def sentences(n, length=80):
    g = torch.Generator().manual_seed(678)
    rows = torch.randint(0, VOCAB, (n, length), generator=g)
    return [{"input_ids": r, "attention_mask": torch.ones_like(r), "labels": r} for r in rows]


base = Qwen2ForCausalLM(Qwen2Config(
    vocab_size=VOCAB, hidden_size=HIDDEN, intermediate_size=1792, num_hidden_layers=4, num_attention_heads=11, num_key_value_heads=11,
    max_position_embeddings=512, tie_word_embeddings=False, use_cache=False))
model = get_peft_model(base, lora_config())
model.print_trainable_parameters()

with tempfile.TemporaryDirectory() as folder:
    trainer = Trainer(
        model=model,
        args=TrainingArguments(folder, max_steps=6, per_device_train_batch_size=4, learning_rate=1e-4, logging_steps=2, save_strategy="no",
                               report_to=[], disable_tqdm=True, lr_scheduler_type="constant"),
        train_dataset=sentences(64), data_collator=default_data_collator)
    trainer.train()
