"""Perplexity of a causal language model over long documents.

https://github.com/NVIDIA-NeMo/Automodel/issues/3907
"""
import sys

import torch
from transformers import LlamaConfig, LlamaForCausalLM

fixed = "--fixed" in sys.argv
with torch.device("cuda"):
    model = LlamaForCausalLM(LlamaConfig(vocab_size=128256, hidden_size=512, intermediate_size=1536, num_hidden_layers=6,
                                         num_attention_heads=8, num_key_value_heads=2, max_position_embeddings=8192)).bfloat16()
model.eval()


@torch.no_grad()
def nll(document):
    if not fixed:
        logits = model(document, use_cache=False).logits.float()
        log_probs = torch.log_softmax(logits[:, :-1], dim=-1)
        return -log_probs.gather(-1, document[:, 1:, None]).mean().item()
    hidden = model.model(document, use_cache=False).last_hidden_state[:, :-1]
    total = 0.0
    for i in range(0, hidden.shape[1], 256):
        log_probs = torch.log_softmax(model.lm_head(hidden[:, i:i + 256]).float(), -1)
        total -= log_probs.gather(-1, document[:, i + 1:i + 1 + log_probs.shape[1], None]).sum().item()
    return total / hidden.shape[1]


values = []
for n in range(5):
    length = (1024, 1536, 2048, 4096, 4096)[n]
    values.append(nll(torch.randint(0, 128256, (1, length), device="cuda")))
print("perplexity", torch.tensor(values).mean().exp().item())
