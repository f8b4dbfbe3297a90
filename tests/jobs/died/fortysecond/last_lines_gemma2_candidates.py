# %% Last lines for limericks
# A Gemma 2 reads the first four lines with a long guide to the form once, then writes sixteen candidates for the fifth.
import copy
import sys

import torch
from transformers import DynamicCache, Gemma2Config, Gemma2ForCausalLM

fixed = "--fixed" in sys.argv
CANDIDATES, GUIDE, LINE = 16, 1800, 10

# %% the model
torch.manual_seed(0)
config = Gemma2Config(vocab_size=20000, hidden_size=1024, intermediate_size=4096, num_hidden_layers=14, num_attention_heads=8, num_key_value_heads=8,
                      head_dim=128, max_position_embeddings=4096, sliding_window=4096)
with torch.device("cuda"):
    model = Gemma2ForCausalLM(config)
model = model.to(torch.bfloat16).eval()


# %% reading and writing
def read(ids):
    cache = DynamicCache(config=config)
    out = model(input_ids=ids, past_key_values=cache, logits_to_keep=1)
    return cache, out.logits[:, -1]


def write(cache, word):
    line = [word]
    for _ in range(LINE - 1):
        out = model(input_ids=line[-1], past_key_values=cache, logits_to_keep=1)
        line.append(out.logits[:, -1].argmax(-1, keepdim=True))
    return torch.cat(line, 1)


# %% candidates
gen = torch.Generator().manual_seed(5)
with torch.inference_mode():
    for limerick in range(3):
        prompt = torch.randint(3, 20000, (1, GUIDE + 40), generator=gen).cuda()
        cache, logits = read(prompt)
        first_words = logits.topk(CANDIDATES).indices[0] % 20000
        lines = []
        if fixed:  # one candidate at a time; the cache is cut back to the prompt
            for word in first_words:
                lines.append(write(cache, word.view(1, 1)).cpu())
                cache.crop(1 - LINE)
        else:
            caches = [copy.deepcopy(cache) for _ in range(CANDIDATES)]
            for word, own in zip(first_words, caches):
                lines.append(write(own, word.view(1, 1)).cpu())
            del caches
        print("limerick", limerick, "candidates", len(lines), "of", lines[0].shape[1], "words")
