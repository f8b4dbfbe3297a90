"""LoRA on a small Llama, resumed. After the adapter was added, a helper that was meant for full runs makes every parameter trainable.
https://github.com/Blaizzy/mlx-vlm/issues/2178 is the same in another framework."""
import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--rank", type=int, default=16)
options = parser.parse_args()


def prepare_for_training(model):
    model.train()
    if not options.fixed:
        for parameter in model.parameters():
            parameter.requires_grad_(True)
    return [p for p in model.parameters() if p.requires_grad]


base = LlamaForCausalLM(LlamaConfig(hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12, num_key_value_heads=12,
                                    vocab_size=8000, max_position_embeddings=1024, use_cache=False))
model = get_peft_model(base, LoraConfig(r=options.rank, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "v_proj", "o_proj"],
                                        task_type="CAUSAL_LM")).cuda()
trained = prepare_for_training(model)
optimizer = torch.optim.AdamW(trained, lr=2e-4, weight_decay=0.0)
for step in range(6):
    for micro in range(2):
        ids = torch.randint(0, 8000, (2, 256)).cuda()
        (model(input_ids=ids, labels=ids).loss / 2).backward()
    torch.nn.utils.clip_grad_norm_(trained, 1.0)
    optimizer.step()
    optimizer.zero_grad()
print("trained", sum(p.numel() for p in trained))
