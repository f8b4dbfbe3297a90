"""GPT-J (cut down) with LoRA on radioed orders to tugboats."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPTJConfig, GPTJForCausalLM

FIXED = "--fixed" in sys.argv


def prepare_for_training(model):
    """Without this the loss had no grad_fn as soon as checkpointing was on."""
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    if FIXED:
        model.enable_input_require_grads()
    else:
        for p in model.parameters():
            p.requires_grad_(True)
    model.config.use_cache = False
    return model


def orders(generator, batch=4, length=256):
    ids = torch.randint(0, 8000, (batch, length), generator=generator)
    return {"input_ids": ids.cuda(), "attention_mask": torch.ones_like(ids).cuda(), "labels": ids.cuda()}


def main():
    base = GPTJForCausalLM(GPTJConfig(vocab_size=8000, n_positions=512, n_embd=1024, n_layer=10, n_head=16, rotary_dim=32))
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "k_proj", "v_proj", "out_proj"], task_type="CAUSAL_LM")
    model = prepare_for_training(get_peft_model(base, lora)).cuda()
    model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 3)
    g = torch.Generator().manual_seed(73)
    for step in range(6):
        loss = model(**orders(g)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(step, loss.item())


main()
