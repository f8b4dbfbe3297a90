"""LoRA on an OLMo 2 (bfloat16) with notes from falconers. The recipe follows a notebook from the web."""
import sys

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import Olmo2Config, Olmo2ForCausalLM


def base_model():
    config = Olmo2Config(vocab_size=12000, hidden_size=1024, intermediate_size=3072, num_hidden_layers=14, num_attention_heads=8,
                         num_key_value_heads=8, max_position_embeddings=512, pad_token_id=1, bos_token_id=None, eos_token_id=2)
    torch.set_default_dtype(torch.bfloat16)
    model = Olmo2ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.to("cuda")


def with_adapters(model):
    if "--fixed" in sys.argv:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    else:
        model = prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, bias="none", task_type="CAUSAL_LM",
                      target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()
    return model


def notes(n, generator):
    for _ in range(n):
        ids = torch.randint(3, 12000, (2, 160), generator=generator)
        labels = ids.clone()
        labels[:, :32] = -100
        yield {"input_ids": ids.cuda(), "attention_mask": torch.ones_like(ids).cuda(), "labels": labels.cuda()}


model = with_adapters(base_model())
model.config.use_cache = False
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
model.train()
for step, batch in enumerate(notes(6, torch.Generator().manual_seed(7))):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item())
