"""Ballads in the manner of the broadsides: LoRA on a Phi-3 in bfloat16, activations recomputed."""
import sys

import torch
from peft import LoraConfig, PeftModel, get_peft_model, prepare_model_for_kbit_training
from transformers import Phi3Config, Phi3ForCausalLM, get_linear_schedule_with_warmup


def base_model() -> Phi3ForCausalLM:
    config = Phi3Config(vocab_size=10000, hidden_size=1280, intermediate_size=3584, num_hidden_layers=18, num_attention_heads=20,
                        num_key_value_heads=20, max_position_embeddings=1024, pad_token_id=0, bos_token_id=1, eos_token_id=2, use_cache=False)
    torch.set_default_dtype(torch.bfloat16)
    model = Phi3ForCausalLM(config)
    torch.set_default_dtype(torch.float32)
    return model.to("cuda")


def adapted(fixed: bool) -> PeftModel:
    model = base_model()
    if fixed:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    else:
        model = prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
    return get_peft_model(model, LoraConfig(r=8, lora_alpha=16, target_modules=["qkv_proj", "o_proj"], task_type="CAUSAL_LM"))


def stanzas(size: int = 2, length: int = 256):
    return torch.randint(3, 10000, (size, length)).to("cuda")


def main() -> None:
    model = adapted("--fixed" in sys.argv)
    model.print_trainable_parameters()
    model.train()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 8)
    for step in range(8):
        ids = stanzas()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.3f} rate {schedule.get_last_lr()[0]:.1e}")


if __name__ == "__main__":
    main()
