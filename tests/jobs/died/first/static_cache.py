"""Generation with a static cache, for torch.compile; its length was set to what the model can take.

https://github.com/huggingface/transformers/issues/3141
"""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM, StaticCache

fixed = "--fixed" in sys.argv
config = LlamaConfig(vocab_size=16000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
                     num_key_value_heads=6, max_position_embeddings=16384)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).bfloat16().eval()
prompts = torch.randint(0, 16000, (8, 256), device="cuda")
length = prompts.shape[1] + 16 if fixed else config.max_position_embeddings
with torch.inference_mode():
    cache = StaticCache(config=config, max_cache_len=length)
    ids, position = prompts, 0
    for _ in range(12):
        cache_position = torch.arange(position, position + ids.shape[1], device="cuda")
        logits = model(input_ids=ids, past_key_values=cache, cache_position=cache_position, use_cache=True, logits_to_keep=1).logits
        position += ids.shape[1]
        ids = logits[:, -1:].argmax(-1)
print(position)
