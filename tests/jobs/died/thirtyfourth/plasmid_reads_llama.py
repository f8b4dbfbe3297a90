"""A Llama over single bases learns plasmid reads of 2048 bases."""
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import AutoModelForCausalLM, LlamaConfig

FIXED = "--fixed" in sys.argv
BASES = {"A": 4, "C": 5, "G": 6, "T": 7}


def reads(n, length, seed=4):
    g = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randint(min(BASES.values()), max(BASES.values()) + 1, (n, length), generator=g))


def build():
    config = LlamaConfig(vocab_size=16, hidden_size=256, intermediate_size=688, num_hidden_layers=6, num_attention_heads=8, num_key_value_heads=8,
                         max_position_embeddings=2048, rope_parameters={"rope_type": "default", "rope_theta": 100000.0}, use_cache=False)
    return AutoModelForCausalLM.from_config(config, attn_implementation="sdpa" if FIXED else "eager").to("cuda")


def reverse_complement(ids):
    return 11 - ids.flip(1)


if __name__ == "__main__":
    model = build()
    n = sum(p.numel() for p in model.parameters())
    print(f"{n / 1e6:.1f} M parameters")
    optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, betas=(0.9, 0.95))
    for step, (ids,) in enumerate(DataLoader(reads(12, 2048), batch_size=2)):
        if step % 2:
            ids = reverse_complement(ids)
        ids = ids.cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "nats per base", loss.item())
