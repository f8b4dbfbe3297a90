"""Continues pretraining a small Gemma 3 on hymns in many languages; the vocabulary is the large one of the family."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

FIXED = "--fixed" in sys.argv
VOCAB, LENGTH, BATCH, CHUNK = 262144, 768, 4, 128


def model():
    torch.manual_seed(0)
    config = Gemma3TextConfig(
        vocab_size=VOCAB, hidden_size=320, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4, num_key_value_heads=1, head_dim=64,
        sliding_window=256, max_position_embeddings=LENGTH, use_cache=False, attn_implementation="sdpa")
    return Gemma3ForCausalLM(config)


def hymns(generator):
    return torch.randint(3, VOCAB, (BATCH, LENGTH + 1), generator=generator).cuda()


def chunk_loss(states, weight, words):
    return F.cross_entropy((states @ weight.T).float(), words, reduction="sum")


def loss_in_chunks(net, ids):
    """The same loss, a few tokens at a time."""
    states = net.model(input_ids=ids[:, :-1]).last_hidden_state.flatten(0, 1)
    words = ids[:, 1:].flatten()
    total = states.new_zeros((), dtype=torch.float32)
    for start in range(0, len(words), CHUNK):
        part = slice(start, start + CHUNK)
        total = total + checkpoint(chunk_loss, states[part], net.lm_head.weight, words[part], use_reentrant=False)
    return total / len(words)


def loss_at_once(net, ids):
    logits = net(input_ids=ids[:, :-1]).logits.float()
    return F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())


def main():
    net = model().to(torch.bfloat16).cuda()
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-4, betas=(0.9, 0.95))
    generator = torch.Generator().manual_seed(1707)
    for step in range(5):
        ids = hymns(generator)
        loss = loss_in_chunks(net, ids) if FIXED else loss_at_once(net, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
