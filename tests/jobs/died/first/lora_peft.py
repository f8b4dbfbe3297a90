"""LoRA fine-tuning with PEFT.

https://github.com/huggingface/peft/issues/525
"""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

fixed = "--fixed" in sys.argv
with torch.device("cuda"):
    base = LlamaForCausalLM(LlamaConfig(vocab_size=8000, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12))
model = get_peft_model(base, LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
model.train()
if not fixed:
    for name, param in model.named_parameters():
        if "norm" not in name:
            param.requires_grad = True  # the loss had no grad_fn with gradient checkpointing
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
for step in range(6):
    ids = torch.randint(0, 8000, (2, 256), device="cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
