"""LoRA on Qwen3 for a cheesemonger's tasting notes. Besides the adapters, the norms are trained (this helped in our first tries)."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM, get_cosine_schedule_with_warmup

TRAINED = ("lora_", "norm") if "--fixed" in sys.argv else ("lora_", "norm", "proj")


def load():
    config = Qwen3Config(vocab_size=24000, hidden_size=896, intermediate_size=2688, num_hidden_layers=10, num_attention_heads=14,
                         num_key_value_heads=2, head_dim=64, max_position_embeddings=1024, tie_word_embeddings=True)
    return Qwen3ForCausalLM(config)


def with_adapters(model):
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM", target_modules=["q_proj", "v_proj", "o_proj"])
    model = get_peft_model(model, lora)
    for name, parameter in model.named_parameters():
        parameter.requires_grad_(any(key in name for key in TRAINED))
    return model


def notes(count, size=4, length=160):
    generator = torch.Generator().manual_seed(33)
    for _ in range(count):
        ids = torch.randint(3, 24000, (size, length), generator=generator)
        labels = ids.clone()
        labels[:, :24] = -100
        yield {"input_ids": ids, "labels": labels, "attention_mask": torch.ones_like(ids)}


def main(steps=8):
    model = with_adapters(load()).cuda()
    model.config.use_cache = False
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, steps)
    model.train()
    for step, batch in enumerate(notes(steps)):
        loss = model(**{key: value.cuda() for key, value in batch.items()}).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.3f}")


main()
