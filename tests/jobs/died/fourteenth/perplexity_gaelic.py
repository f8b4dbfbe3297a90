"""Measures how surprised a Llama with a large vocabulary is by Gaelic texts, token by token."""
import sys

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
VOCABULARY = 64000

config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=512, intermediate_size=1408, num_hidden_layers=6, num_attention_heads=8,
                     num_key_value_heads=4, max_position_embeddings=1024, tie_word_embeddings=True)
model = LlamaForCausalLM(config).to("cuda", torch.bfloat16).eval()


def texts(count, batch=4, length=768):
    generator = torch.Generator().manual_seed(12)
    for _ in range(count):
        yield torch.randint(1, VOCABULARY, (batch, length), generator=generator)


def surprise(ids):
    """Minus the log probability of each token after the first."""
    if FIXED:
        states = model.model(input_ids=ids).last_hidden_state
        parts = []
        for part, target in zip(states[:, :-1].split(64, 1), ids[:, 1:].split(64, 1)):
            logits = model.lm_head(part).float()
            parts.append(F.cross_entropy(logits.flatten(0, 1), target.flatten(), reduction="none").view_as(target))
        return torch.cat(parts, 1)
    logits = model(input_ids=ids).logits.float()
    log_probabilities = torch.log_softmax(logits[:, :-1], dim=-1)
    return -log_probabilities.gather(-1, ids[:, 1:].unsqueeze(-1)).squeeze(-1)


@torch.inference_mode()
def main():
    total = tokens = 0
    for number, ids in enumerate(texts(5)):
        values = surprise(ids.to("cuda"))
        total += values.sum().item()
        tokens += values.numel()
        print("batch", number, "nats per token so far", total / tokens)


main()
