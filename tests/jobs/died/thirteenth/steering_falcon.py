"""Collects steering vectors from a Falcon: for pairs of prompts, the mean difference of the hidden states that generate() returns."""
import sys

import torch
from transformers import FalconConfig, FalconForCausalLM

FIXED = "--fixed" in sys.argv
LAYER = 6


def model_and_device():
    config = FalconConfig(vocab_size=6000, hidden_size=512, num_hidden_layers=10, num_attention_heads=8, new_decoder_architecture=False,
                          multi_query=True, parallel_attn=True, alibi=False, bos_token_id=1, eos_token_id=None, pad_token_id=0)
    return FalconForCausalLM(config).to("cuda").eval()


def states(model, prompts, layer):
    """The hidden states of one layer, averaged over the tokens of the prompt and of the answer."""
    out = model.generate(input_ids=prompts, attention_mask=torch.ones_like(prompts), max_new_tokens=12, do_sample=False,
                         return_dict_in_generate=True, output_hidden_states=True, pad_token_id=0, eos_token_id=None)
    return [step[layer] for step in out.hidden_states]


def mean_state(parts):
    total = sum(p.float().sum(dim=1) for p in parts)
    return (total / sum(p.shape[1] for p in parts)).mean(0)


def main():
    model = model_and_device()
    generator = torch.Generator().manual_seed(6)
    kind, rude = [], []
    for _ in range(24):
        good, bad = (torch.randint(1, 6000, (8, 320), generator=generator).cuda() for _ in range(2))
        for side, prompts in ((kind, good), (rude, bad)):
            parts = states(model, prompts, LAYER)
            side.append(mean_state(parts) if FIXED else parts)
        print(len(kind), "pairs")
    if not FIXED:
        kind, rude = [mean_state(p) for p in kind], [mean_state(p) for p in rude]
    vector = torch.stack(kind).mean(0) - torch.stack(rude).mean(0)
    print("steering vector of", vector.shape[0])


main()
