"""Proposes slogans for an advertising desk: GPT-2 with sampling, a hundred proposals for each brief, the best ones by mean log-probability."""
import sys
import time

import torch
from transformers import GenerationConfig, GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv
PROPOSALS = 96
AT_ONCE = 8 if FIXED else PROPOSALS


def load():
    config = GPT2Config(vocab_size=6000, n_positions=512, n_embd=512, n_layer=8, n_head=8, bos_token_id=1, eos_token_id=None, pad_token_id=0)
    model = GPT2LMHeadModel(config)
    return model.to("cuda").eval()


def briefs():
    generator = torch.Generator().manual_seed(3)
    for name, length in ("bicycles", 160), ("insurance", 220), ("lemonade", 190):
        yield name, torch.randint(2, 6000, (1, length), generator=generator)


def propose(model, prompt, count):
    settings = GenerationConfig(do_sample=True, top_k=50, temperature=0.9, max_new_tokens=24, num_return_sequences=count,
                                pad_token_id=0, return_dict_in_generate=True)
    return model.generate(prompt, attention_mask=torch.ones_like(prompt), generation_config=settings).sequences


@torch.no_grad()
def rank(model, sequences, start):
    """The mean log-probability of each, eight at a time."""
    scores = []
    for part in sequences.split(8):
        logits = model(part[:, :-1], use_cache=False, logits_to_keep=part.shape[1] - start).logits
        picked = logits.log_softmax(-1).gather(-1, part[:, start:, None]).squeeze(-1)
        scores.append(picked.mean(-1).cpu())
    return torch.cat(scores)


def variety(sequences, start):
    """The share of proposals that are different from all others."""
    rows = [tuple(row) for row in sequences[:, start:].tolist()]
    return len(set(rows)) / len(rows)


def main():
    model = load()
    for name, prompt in briefs():
        started = time.time()
        prompt = prompt.to("cuda")
        found = []
        for _ in range(0, PROPOSALS, AT_ONCE):
            found.append(propose(model, prompt, AT_ONCE))
        sequences = torch.cat(found)
        scores = rank(model, sequences, prompt.shape[1])
        best = scores.topk(3)
        print("%s: %d proposals in %.1f s, best %s" % (name, len(sequences), time.time() - started, best.indices.tolist()))
        print("    %.0f %% are different" % (100 * variety(sequences, prompt.shape[1])))


main()
