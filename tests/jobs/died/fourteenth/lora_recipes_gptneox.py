"""LoRA on a GPT-NeoX in bfloat16 that answers questions about cooking; the preparation step was copied from a notebook about 4-bit models."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

FIXED = "--fixed" in sys.argv


def base():
    config = GPTNeoXConfig(vocab_size=12000, hidden_size=1024, num_hidden_layers=14, num_attention_heads=16, intermediate_size=4096,
                           max_position_embeddings=512, hidden_dropout=0.0, attention_dropout=0.0)
    return GPTNeoXForCausalLM(config).to(torch.bfloat16)


def prepare(model):
    """Freezes the base and makes it ready for adapters."""
    for parameter in model.parameters():
        parameter.requires_grad = False
        if not FIXED and parameter.dtype in (torch.float16, torch.bfloat16):
            parameter.data = parameter.data.to(torch.float32)
    model.enable_input_require_grads()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model


def questions(steps, batch=4, length=128):
    generator = torch.Generator().manual_seed(2)
    for _ in range(steps):
        ids = torch.randint(1, 12000, (batch, length), generator=generator)
        labels = ids.clone()
        labels[:, :24] = -100
        yield ids, labels


def main():
    model = prepare(base().to("cuda"))
    model.config.use_cache = False
    model = get_peft_model(model, LoraConfig(r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["query_key_value"], task_type="CAUSAL_LM"))
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    model.train()
    for step, (ids, labels) in enumerate(questions(8)):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=ids.to("cuda"), labels=labels.to("cuda")).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, loss.item())


main()
