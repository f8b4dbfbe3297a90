"""A Llama that generates: generate.py [--batch 8] [--prompt 256] [--tokens 64] [--cache dynamic|static] [--loop generate|hand]"""
import argparse
import os

import torch

os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
import transformers  # noqa: E402


def by_hand(model, tokens, count):
    """One token at a time, as people write it themselves."""
    cache = None
    with torch.no_grad():
        for _ in range(count):
            out = model(input_ids=tokens if cache is None else tokens[:, -1:], past_key_values=cache, use_cache=True, logits_to_keep=1)
            cache = out.past_key_values
            tokens = torch.cat([tokens, torch.zeros(len(tokens), 1, dtype=torch.long, device="cuda")], 1)


def main():
    p = argparse.ArgumentParser()
    for name, number in (("layers", 4), ("hidden", 1024), ("heads", 8), ("kv-heads", 4), ("batch", 8), ("prompt", 256), ("tokens", 64)):
        p.add_argument("--" + name, type=int, default=number)
    p.add_argument("--cache", default="dynamic")
    p.add_argument("--loop", default="generate", choices=("generate", "hand"))
    o = p.parse_args()
    config = transformers.LlamaConfig(num_hidden_layers=o.layers, hidden_size=o.hidden, num_attention_heads=o.heads,
                                      num_key_value_heads=o.kv_heads, intermediate_size=2 * o.hidden, vocab_size=8000)
    with torch.device("cuda"):
        model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    tokens = torch.ones(o.batch, o.prompt, dtype=torch.long, device="cuda")
    if o.loop == "hand":
        by_hand(model, tokens, o.tokens)
    else:
        model.generate(tokens, max_new_tokens=o.tokens, min_new_tokens=o.tokens, do_sample=False, pad_token_id=0,
                       cache_implementation=o.cache if o.cache != "dynamic" else None)


main()
