"""Writes eight candidates for each of 48 occasions with a small Qwen3, for people to choose from."""
import sys

import torch
from transformers import GenerationConfig, Qwen3Config, Qwen3ForCausalLM

FIXED = "--fixed" in sys.argv
OCCASIONS, CANDIDATES, PROMPT = 48, 8, 320


def load():
    config = Qwen3Config(vocab_size=8000, hidden_size=512, intermediate_size=1024, num_hidden_layers=10, num_attention_heads=8,
                         num_key_value_heads=8, head_dim=64, max_position_embeddings=1024, bos_token_id=1, eos_token_id=None, pad_token_id=0)
    torch.manual_seed(0)
    return Qwen3ForCausalLM(config).to(torch.bfloat16).cuda().eval()


def occasions():
    """Instructions with a few examples, so the prompts are long; padded on the left."""
    gen = torch.Generator().manual_seed(88)
    ids = torch.randint(3, 8000, (OCCASIONS, PROMPT), generator=gen)
    lengths = torch.randint(PROMPT - 40, PROMPT + 1, (OCCASIONS,), generator=gen)
    mask = (torch.arange(PROMPT)[None] >= PROMPT - lengths[:, None]).long()
    return ids * mask, mask


class Writer:
    def __init__(self, model, group):
        self.model, self.group = model, group
        self.how = GenerationConfig(do_sample=True, temperature=0.9, top_k=40, max_new_tokens=20, num_return_sequences=CANDIDATES,
                                    pad_token_id=0, eos_token_id=None)

    @torch.inference_mode()
    def __call__(self, ids, mask):
        texts = []
        for part, part_mask in zip(ids.split(self.group), mask.split(self.group)):
            out = self.model.generate(input_ids=part.cuda(), attention_mask=part_mask.cuda(), generation_config=self.how)
            texts.append(out[:, PROMPT:].cpu())
        return texts


def main():
    writer = Writer(load(), group=12 if FIXED else OCCASIONS)
    texts = writer(*occasions())
    print(sum(len(t) for t in texts), "candidates")


main()
