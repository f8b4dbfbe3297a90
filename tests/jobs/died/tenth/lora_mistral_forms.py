"""LoRA on a Mistral in bfloat16 that fills in forms. The preparation of the model was copied from a notebook for 4-bit training."""
import sys

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from torch.utils.data import DataLoader
from transformers import MistralConfig, MistralForCausalLM, get_cosine_schedule_with_warmup

FIXED = "--fixed" in sys.argv


def forms(n):
    generator = torch.Generator().manual_seed(6)
    return [torch.randint(3, 12000, (192,), generator=generator) for _ in range(n)]


def make_base():
    config = MistralConfig(vocab_size=12000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=10, num_attention_heads=16,
                           num_key_value_heads=4, max_position_embeddings=512, use_cache=False)
    torch.set_default_dtype(torch.bfloat16)
    with torch.device("cuda"):
        base = MistralForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return base


def prepare(base):
    if FIXED:
        base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        base.enable_input_require_grads()
    else:
        base = prepare_model_for_kbit_training(base, gradient_checkpointing_kwargs={"use_reentrant": False})
    return get_peft_model(base, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))


def train(model, loader):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4)
    schedule = get_cosine_schedule_with_warmup(optimizer, 1, len(loader))
    model.train()
    for step, ids in enumerate(loader):
        ids = ids.to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 0.3)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


def main():
    model = prepare(make_base())
    model.print_trainable_parameters()
    train(model, DataLoader(forms(12), batch_size=2))


main()
