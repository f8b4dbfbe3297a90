"""A transformers Llama of about 1B parameters in bfloat16, AdamW: llama.py [LAYERS [ATTENTION]]"""
import sys
import warnings

import torch

warnings.filterwarnings("ignore")
from transformers import LlamaConfig, LlamaForCausalLM  # noqa: E402

layers = int(sys.argv[1]) if len(sys.argv) > 1 else 16
config = LlamaConfig(hidden_size=2048, num_hidden_layers=layers, num_attention_heads=32, num_key_value_heads=8, intermediate_size=8192,
                     vocab_size=32000, max_position_embeddings=4096, tie_word_embeddings=False, use_cache=False,
                     attn_implementation=sys.argv[2] if len(sys.argv) > 2 else "sdpa", dtype=torch.bfloat16)
with torch.device("cuda"):
    model = LlamaForCausalLM(config).bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(2):
    tokens = torch.randint(0, 32000, (1, 2048)).cuda()
    loss = model(input_ids=tokens, labels=tokens).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
