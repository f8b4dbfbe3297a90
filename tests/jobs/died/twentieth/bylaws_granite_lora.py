"""LoRA on a Granite in bfloat16 with municipal by-laws as long texts."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, GraniteConfig

ATTENTION = "sdpa" if "--fixed" in sys.argv else "eager"
LENGTH = 3072


def load_model():
    config = GraniteConfig(vocab_size=6000, hidden_size=512, intermediate_size=1408, num_hidden_layers=6, num_attention_heads=8,
                           num_key_value_heads=4, max_position_embeddings=4096, attention_dropout=0.0, use_cache=False)
    model = AutoModelForCausalLM.from_config(config, attn_implementation=ATTENTION, dtype=torch.bfloat16)
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()
    return model.cuda()


def bylaws(count):
    generator = torch.Generator().manual_seed(1974)
    for _ in range(count):
        yield torch.randint(0, 6000, (1, LENGTH), generator=generator)


def main():
    model = load_model()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1e-4)
    accumulate = 4
    for n, ids in enumerate(bylaws(12), 1):
        ids = ids.cuda()
        loss = model(input_ids=ids, labels=ids).loss
        (loss / accumulate).backward()
        if n % accumulate == 0:
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            print("text", n, "loss", loss.item())


main()
