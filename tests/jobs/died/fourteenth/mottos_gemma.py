"""Writes mottos for clubs with a Gemma: a file of long club histories, the prompts in batches, and generate() for each batch."""
import sys

import torch
from transformers import GemmaConfig, GemmaForCausalLM

BATCH = 4 if "--fixed" in sys.argv else 48


def histories(count, length):
    generator = torch.Generator().manual_seed(9)
    return torch.randint(5, 8000, (count, length), generator=generator)


def load():
    config = GemmaConfig(vocab_size=8000, hidden_size=512, intermediate_size=1536, num_hidden_layers=12, num_attention_heads=8,
                         num_key_value_heads=8, head_dim=64, max_position_embeddings=2048, pad_token_id=0, bos_token_id=2, eos_token_id=1)
    model = GemmaForCausalLM(config).to("cuda", torch.bfloat16)
    model.generation_config.eos_token_id = None
    return model.eval()


def mottos(model, prompts):
    written = []
    for chunk in prompts.split(BATCH):
        chunk = chunk.to("cuda")
        out = model.generate(input_ids=chunk, attention_mask=torch.ones_like(chunk), max_new_tokens=12, do_sample=False, pad_token_id=0)
        written += out[:, chunk.shape[1]:].tolist()
        print(len(written), "mottos")
    return written


def main():
    model = load()
    found = mottos(model, histories(48, 1200))
    print("first motto has", len(found[0]), "tokens")


main()
