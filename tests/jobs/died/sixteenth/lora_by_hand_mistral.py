"""LoRA without a library, on a Mistral for letters of complaint about trains."""
import math
import sys

import torch
import torch.nn as nn
from transformers import MistralConfig, MistralForCausalLM


class LoRALinear(nn.Module):
    def __init__(self, base: nn.Linear, r=8, alpha=16):
        super().__init__()
        self.base = base
        self.lora_a = nn.Parameter(torch.empty(r, base.in_features, device=base.weight.device))
        self.lora_b = nn.Parameter(torch.zeros(base.out_features, r, device=base.weight.device))
        self.scale = alpha / r
        nn.init.kaiming_uniform_(self.lora_a, a=math.sqrt(5))

    def forward(self, x):
        return self.base(x) + (x @ self.lora_a.T @ self.lora_b.T) * self.scale


def add_lora(model, names=("q_proj", "v_proj")):
    if "--fixed" in sys.argv:
        for parameter in model.parameters():
            parameter.requires_grad = False
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear) and name in names:
                setattr(parent, name, LoRALinear(child))
    return [p for n, p in model.named_parameters() if "lora_" in n]


def main():
    with torch.device("cuda"):
        model = MistralForCausalLM(MistralConfig(
            vocab_size=8000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=14, num_attention_heads=16, num_key_value_heads=4,
            max_position_embeddings=512, sliding_window=None, use_cache=False))
    trained = add_lora(model)
    total = sum(p.numel() for p in model.parameters())
    print(f"training {sum(p.numel() for p in trained):,} of {total:,} parameters")
    optimizer = torch.optim.AdamW(trained, lr=2e-4)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=8)
    g = torch.Generator().manual_seed(21)
    model.train()
    for step in range(8):
        ids = torch.randint(0, 8000, (2, 128), generator=g).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        optimizer.step()
        scheduler.step()
        print(step, loss.item())


if __name__ == "__main__":
    main()
