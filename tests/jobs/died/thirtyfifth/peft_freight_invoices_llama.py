"""LoRA on a Llama for reading freight invoices: consignor, weight, surcharge. Adapters on attention and MLP, base in bfloat16."""
import sys

import torch
from peft import LoraConfig, get_peft_model, prepare_model_for_kbit_training
from transformers import AutoModelForCausalLM, LlamaConfig

FIXED = "--fixed" in sys.argv
VOCAB = 16000


def base_model():
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=1536, intermediate_size=4096, num_hidden_layers=12, num_attention_heads=12,
                         num_key_value_heads=4, max_position_embeddings=1024, use_cache=False)
    with torch.device("cuda"):
        return AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def with_adapters(model):
    if FIXED:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
        model.enable_input_require_grads()
    else:
        model = prepare_model_for_kbit_training(model, gradient_checkpointing_kwargs={"use_reentrant": False})
    lora = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM",
                      target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    return get_peft_model(model, lora)


def invoices(steps, batch=2, length=320):
    g = torch.Generator().manual_seed(42)
    for _ in range(steps):
        ids = torch.randint(0, VOCAB, (batch, length), generator=g)
        labels = ids.clone()
        labels[:, :200] = -100
        yield ids.cuda(), labels.cuda()


def main():
    model = with_adapters(base_model())
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)
    model.train()
    for step, (ids, labels) in enumerate(invoices(6)):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
