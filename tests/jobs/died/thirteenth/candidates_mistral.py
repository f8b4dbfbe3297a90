"""Samples answers of a small Mistral for rejection sampling: many candidates a prompt, then a length rule picks one."""
import sys

import torch
from transformers import GenerationConfig, MistralConfig, MistralForCausalLM

N = 192
AT_ONCE = 16 if "--fixed" in sys.argv else N


def policy():
    config = MistralConfig(vocab_size=4000, hidden_size=512, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=8,
                           num_key_value_heads=8, max_position_embeddings=2048, sliding_window=None, eos_token_id=None, pad_token_id=0)
    return MistralForCausalLM(config).to("cuda", torch.bfloat16).eval()


def prompts():
    generator = torch.Generator().manual_seed(2)
    for length in (180, 240):
        yield torch.randint(1, 4000, (1, length), generator=generator)


@torch.no_grad()
def sample(model, prompt, n):
    config = GenerationConfig(do_sample=False, num_return_sequences=1, max_new_tokens=24, pad_token_id=0, eos_token_id=None, use_cache=True)
    rows = prompt.to("cuda").expand(n, -1).contiguous()
    text = model.generate(input_ids=rows, attention_mask=torch.ones_like(rows), generation_config=config)
    return text[:, prompt.shape[1]:].cpu()


def candidates(model, prompt):
    found = []
    left = N
    while left:
        n = min(AT_ONCE, left)
        found.append(sample(model, prompt, n))
        left -= n
    return torch.cat(found)


def score(rows):
    """The share of distinct tokens, as a cheap stand-in for the reward model."""
    return torch.tensor([len(set(r.tolist())) / len(r) for r in rows])


def main():
    model = policy()
    chosen = []
    for prompt in prompts():
        rows = candidates(model, prompt)
        best = int(score(rows).argmax())
        chosen.append(rows[best])
        print("prompt of", prompt.shape[1], "tokens:", len(rows), "candidates, best is", best)
    print(len(chosen), "answers kept")


main()
