"""Adds forty Ladino words to a small Gemma2 and tunes it with LoRA."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import Gemma2Config, Gemma2ForCausalLM

FIXED = "--fixed" in sys.argv
OLD, NEW = 64000, 40


def load_model():
    config = Gemma2Config(vocab_size=OLD, hidden_size=768, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=4,
                          head_dim=96, max_position_embeddings=512, sliding_window=256, query_pre_attn_scalar=96, tie_word_embeddings=True)
    model = Gemma2ForCausalLM(config)
    model.resize_token_embeddings(OLD + NEW, mean_resizing=False)
    return model


def adapters(model):
    options = dict(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type=TaskType.CAUSAL_LM)
    if FIXED:
        options["trainable_token_indices"] = list(range(OLD, OLD + NEW))
    else:
        options["modules_to_save"] = ["embed_tokens", "lm_head"]
    return get_peft_model(model, LoraConfig(**options))


model = adapters(load_model()).to("cuda")
model.print_trainable_parameters()
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=1e-4)
generator = torch.Generator().manual_seed(1492)
model.train()
for step in range(6):
    ids = torch.randint(0, OLD + NEW, (2, 128), generator=generator).to("cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.3f}")
