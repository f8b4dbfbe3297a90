"""Adapts a Llama to prescriptions of apothecaries.  The signs for ounce, drachm, scruple and so on are new words of the vocabulary."""
import sys

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM

OLD_WORDS, SIGNS = 80000, 24


def base():
    model = LlamaForCausalLM(LlamaConfig(
        vocab_size=OLD_WORDS, hidden_size=768, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=12, num_key_value_heads=4,
        max_position_embeddings=1024, tie_word_embeddings=True, use_cache=False))
    model.resize_token_embeddings(OLD_WORDS + SIGNS, mean_resizing=False)
    return model.to("cuda")


def adapter_config():
    common = dict(r=8, lora_alpha=16, lora_dropout=0.0, task_type="CAUSAL_LM", target_modules=["q_proj", "v_proj", "o_proj"])
    if "--fixed" in sys.argv:
        return LoraConfig(trainable_token_indices={"embed_tokens": list(range(OLD_WORDS, OLD_WORDS + SIGNS))}, **common)
    return LoraConfig(modules_to_save=["embed_tokens", "lm_head"], **common)


def prescriptions(steps):
    g = torch.Generator().manual_seed(1618)
    for _ in range(steps):
        ids = torch.randint(3, OLD_WORDS, (2, 96), generator=g)
        ids[:, ::5] = torch.randint(OLD_WORDS, OLD_WORDS + SIGNS, ids[:, ::5].shape, generator=g)
        yield ids.cuda()


model = get_peft_model(base(), adapter_config())
model.print_trainable_parameters()
optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=3e-4)
model.train()
for number, ids in enumerate(prescriptions(6)):
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print("prescriptions", 2 * number + 2, "loss", loss.item())
