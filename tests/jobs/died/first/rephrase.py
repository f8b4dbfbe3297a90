"""Paraphrases with many sequences for each prompt.

https://github.com/huggingface/transformers/issues/28707
"""
import argparse

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--sequences", type=int, default=24)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
with torch.device("cuda"):
    model = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=10000, hidden_size=768, num_hidden_layers=12, num_attention_heads=12,
                                             intermediate_size=3072)).half().eval()
for request in range(2):
    prompt = torch.randint(5, 10000, (4, 600), device="cuda")
    # all at once, or a few at a time
    for _ in range(6 if args.fixed else 1):
        out = model.generate(prompt, attention_mask=torch.ones_like(prompt), do_sample=True, min_new_tokens=10, max_new_tokens=10, pad_token_id=0,
                             num_return_sequences=args.sequences // (6 if args.fixed else 1), remove_invalid_values=True)
    print(request, tuple(out.shape))
