"""Writes 48 variants of each bread recipe from a long prompt with examples; a GPT-NeoX of our own size."""
import sys

import torch
from transformers import GenerationConfig, GPTNeoXConfig, GPTNeoXForCausalLM

WANTED = 48
AT_ONCE = 6 if "--fixed" in sys.argv else WANTED

config = GPTNeoXConfig(vocab_size=16000, max_position_embeddings=2048, hidden_size=1024, intermediate_size=4096, num_hidden_layers=14,
                       num_attention_heads=16, bos_token_id=1, eos_token_id=None)
model = GPTNeoXForCausalLM(config).to("cuda", torch.bfloat16).eval()
how = GenerationConfig(max_new_tokens=40, min_new_tokens=40, do_sample=True, top_k=40, temperature=0.8, pad_token_id=0, eos_token_id=None)


def prompt(recipe):
    """Six examples and the recipe"""
    g = torch.Generator().manual_seed(recipe)
    return torch.randint(2, 16000, (1, 900), generator=g)


@torch.inference_mode()
def variants(recipe, at_once):
    ids = prompt(recipe).to("cuda")
    texts = []
    while len(texts) < WANTED:
        out = model.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=how, num_return_sequences=at_once)
        texts += out[:, ids.shape[1]:].cpu().tolist()
    return texts


for recipe in range(2):
    found = variants(recipe, AT_ONCE)
    print("recipe", recipe, "variants", len(found), "tokens each", len(found[0]))
