"""LoRA for a Llama that is to learn Yoruba, on a base with a vocabulary of 64000."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

WORDS = 64000


def base_model():
    config = LlamaConfig(vocab_size=WORDS, hidden_size=640, intermediate_size=1536, num_hidden_layers=4, num_attention_heads=10,
                         num_key_value_heads=5, max_position_embeddings=512, tie_word_embeddings=False, use_cache=False)
    return LlamaForCausalLM(config)


def with_adapters(model):
    options = dict(task_type=TaskType.CAUSAL_LM, r=16, lora_alpha=32, lora_dropout=0.05,
                   target_modules=["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"])
    if "--fixed" not in sys.argv:
        options["modules_to_save"] = ["embed_tokens", "lm_head"]
    return get_peft_model(model, LoraConfig(**options))


def sentences(count=32, length=96):
    g = torch.Generator().manual_seed(234)
    return list(torch.randint(5, WORDS, (count, length), generator=g))


def collate(rows):
    ids = torch.stack(rows)
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids.clone()}


model = with_adapters(base_model()).to("cuda")
model.print_trainable_parameters()
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
loader = DataLoader(sentences(), batch_size=4, shuffle=True, collate_fn=collate)

model.train()
for step, batch in enumerate(loader):
    batch = {name: value.to("cuda") for name, value in batch.items()}
    loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print("step", step, "loss", loss.item())
