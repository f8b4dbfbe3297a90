"""Writes sixteen candidates of an epitaph for each life story, for stonemasons to choose from. Own sampling loop; bfloat16."""
import sys

import torch
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

VOCAB, CANDIDATES = 16000, 16


def load():
    config = MistralConfig(vocab_size=VOCAB, hidden_size=768, intermediate_size=1536, num_hidden_layers=10, num_attention_heads=12,
                           num_key_value_heads=12, max_position_embeddings=1024, sliding_window=None)
    return MistralForCausalLM(config).to("cuda", torch.bfloat16).eval()


@torch.inference_mode()
def write(model, stories, length=40, temperature=0.9, top_p=0.95):
    """stories: N x T; returns N x CANDIDATES x length"""
    tokens = stories.repeat_interleave(CANDIDATES, 0).to("cuda")
    cache, written = DynamicCache(config=model.config), []
    for _ in range(length):
        out = model(input_ids=tokens, past_key_values=cache, use_cache=True, logits_to_keep=1)
        p, order = (out.logits[:, -1].float() / temperature).softmax(-1).sort(-1, descending=True)
        p = p.masked_fill(p.cumsum(-1) - p > top_p, 0.0)
        tokens = order.gather(-1, torch.multinomial(p, 1))
        written.append(tokens.cpu())
    return torch.cat(written, 1).view(len(stories), CANDIDATES, length)


class Queue:
    """Stories that came in over night."""

    def __init__(self, count, length=224):
        self.stories = torch.randint(3, VOCAB, (count, length), generator=torch.Generator().manual_seed(13))

    def groups(self, size):
        yield from self.stories.split(size)


def main():
    model = load()
    done = 0
    for group in Queue(24).groups(3 if "--fixed" in sys.argv else 12):
        epitaphs = write(model, group)
        done += len(epitaphs)
        print(f"{done} stories, {epitaphs.shape[1]} epitaphs of {epitaphs.shape[2]} tokens each")


if __name__ == "__main__":
    main()
