"""LoRA on a Mistral for transcribing abbreviations in bailiffs' rolls; the norms are trained along with the adapters."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import MistralConfig, MistralForCausalLM, get_cosine_schedule_with_warmup

FIXED = "--fixed" in sys.argv
VOCAB = 6000


def load_base():
    config = MistralConfig(vocab_size=VOCAB, hidden_size=1152, intermediate_size=3328, num_hidden_layers=10, num_attention_heads=18,
                           num_key_value_heads=6, max_position_embeddings=1024, sliding_window=None, use_cache=False)
    with torch.device("cuda"):
        return MistralForCausalLM(config)


def add_adapters(base):
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM")
    model = get_peft_model(base, lora)
    # small vectors, and they help a lot with a new script
    wanted = ("norm",) if FIXED else ("norm", "layer")
    for name, parameter in model.named_parameters():
        if any(w in name for w in wanted):
            parameter.requires_grad = True
    return model


def rolls(batches, size=2, length=224):
    g = torch.Generator().manual_seed(1327)
    for _ in range(batches):
        ids = torch.randint(5, VOCAB, (size, length), generator=g)
        labels = ids.clone()
        labels[:, :length // 2] = -100
        yield {"input_ids": ids, "labels": labels}


def main():
    torch.manual_seed(0)
    model = add_adapters(load_base())
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-4, weight_decay=0.0)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 10)
    model.train()
    for step, batch in enumerate(rolls(6)):
        out = model(**{k: v.to("cuda") for k, v in batch.items()})
        out.loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print("step", step, "loss", out.loss.item())


if __name__ == "__main__":
    main()
