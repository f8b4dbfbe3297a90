"""LoRA on a Llama for the ledgers of merchants, pages of 2048 tokens. PEFT with a plain loop."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig

attention = "sdpa" if "--fixed" in sys.argv else "eager"


def load_base():
    config = LlamaConfig(vocab_size=3000, hidden_size=512, intermediate_size=1376, num_hidden_layers=6, num_attention_heads=8,
                         num_key_value_heads=8, max_position_embeddings=2048, use_cache=False)
    return AutoModelForCausalLM.from_config(config, attn_implementation=attention)


def pages(n, seed=1602):
    generator = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield torch.randint(0, 3000, (2, 2048), generator=generator)


peft_config = LoraConfig(task_type=TaskType.CAUSAL_LM, r=16, lora_alpha=32, lora_dropout=0.05,
                         target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
model = get_peft_model(load_base(), peft_config)
model.print_trainable_parameters()
model.to("cuda").train()
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)
scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=2e-4, total_steps=6)

for step, input_ids in enumerate(pages(6)):
    input_ids = input_ids.to("cuda")
    outputs = model(input_ids=input_ids, labels=input_ids)
    outputs.loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad()
    print(f"step {step}: loss {outputs.loss.item():.3f}")
