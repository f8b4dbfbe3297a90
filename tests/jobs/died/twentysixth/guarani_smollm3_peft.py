import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import SmolLM3Config, SmolLM3ForCausalLM, get_linear_schedule_with_warmup

# LoRA tuning of SmolLM3 on a Guarani-Spanish conversation corpus.

RANK, ALPHA = 16, 32


def build_base():
    config = SmolLM3Config(
        vocab_size=16000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=14, num_attention_heads=16,
        num_key_value_heads=4, max_position_embeddings=2048, pad_token_id=0, bos_token_id=1, eos_token_id=2, use_cache=False)
    with torch.device("cuda"):
        return SmolLM3ForCausalLM(config).to(torch.bfloat16)


def prepare(model):
    """Puts the model into the state in which the loop below expects it."""
    model.train()
    if "--fixed" not in sys.argv:
        for parameter in model.parameters():
            parameter.requires_grad_(parameter.is_floating_point())
    trainable = [p for p in model.parameters() if p.requires_grad]
    print("tensors to train:", len(trainable))
    return trainable


def conversations(batches, size=4, length=256):
    source = torch.Generator().manual_seed(2024)
    for _ in range(batches):
        ids = torch.randint(3, 16000, (size, length), generator=source)
        labels = ids.clone()
        labels[:, : length // 3] = -100          # the question
        yield ids.cuda(), labels.cuda()


def main():
    model = get_peft_model(build_base(), LoraConfig(
        r=RANK, lora_alpha=ALPHA, lora_dropout=0.1, bias="none", task_type="CAUSAL_LM",
        target_modules=["q_proj", "v_proj", "gate_proj", "up_proj", "down_proj"]))
    trainable = prepare(model)
    optimizer = torch.optim.AdamW(trainable, lr=1e-4, weight_decay=0.0, fused=True)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, 8)
    for step, (ids, labels) in enumerate(conversations(8)):
        loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad(set_to_none=True)
        print(step, loss.item())


main()
