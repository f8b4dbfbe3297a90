"""IA3 adapters on a saved base model for questions about the law, with gradient checkpointing because the texts are long."""
import sys
import tempfile

import torch
from peft import IA3Config, get_peft_model
from transformers import AutoModelForCausalLM, LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv


def save_base(folder):
    config = LlamaConfig(vocab_size=4000, hidden_size=512, intermediate_size=1408, num_hidden_layers=10, num_attention_heads=8,
                         num_key_value_heads=8, max_position_embeddings=1024)
    LlamaForCausalLM(config).save_pretrained(folder)


def load(folder):
    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    model.enable_input_require_grads()
    adapters = IA3Config(task_type="CAUSAL_LM", target_modules=["k_proj", "v_proj", "down_proj"], feedforward_modules=["down_proj"])
    model = get_peft_model(model, adapters)
    model.print_trainable_parameters()
    return model.to("cuda")


def dialogues(n, batch=4, length=768):
    generator = torch.Generator().manual_seed(21)
    for _ in range(n):
        ids = torch.randint(3, 4000, (batch, length), generator=generator)
        labels = ids.clone()
        labels[:, :512] = -100
        yield {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


def main():
    with tempfile.TemporaryDirectory() as folder:
        save_base(folder)
        model = load(folder)
    if FIXED:
        model.train()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
    for step, batch in enumerate(dialogues(4)):
        loss = model(**{k: v.to("cuda") for k, v in batch.items()}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())
    print("tensors of the adapters:", sum(p.requires_grad for p in model.parameters()))


main()
