"""Turns radio orders of ferry pilots into commands: a Mistral that answers short requests in batches, with a cache of fixed size."""
import sys

import torch
from transformers import MistralConfig, MistralForCausalLM, StaticCache

FIXED = "--fixed" in sys.argv
ORDER, COMMAND, BATCH = 90, 20, 24
LONGEST = ORDER + COMMAND if FIXED else 4096  # words that the cache has room for


def load():
    torch.manual_seed(0)
    config = MistralConfig(vocab_size=8000, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12, num_key_value_heads=12,
                           head_dim=64, max_position_embeddings=4096, sliding_window=None)
    return MistralForCausalLM(config).half().cuda().eval()


class Bridge:
    """Collects orders, and answers them together."""

    def __init__(self, model):
        self.model, self.waiting = model, []

    def hear(self, order):
        self.waiting.append(order)
        if len(self.waiting) == BATCH:
            orders, self.waiting = torch.stack(self.waiting), []
            return self.answer(orders)
        return None

    @torch.no_grad()
    def answer(self, orders):
        cache = StaticCache(config=self.model.config, max_cache_len=LONGEST)
        words, ids, position = [], orders.cuda(), 0
        for _ in range(COMMAND):
            at = torch.arange(position, position + ids.shape[1], device="cuda")
            out = self.model(input_ids=ids, position_ids=at[None].expand(len(ids), -1), past_key_values=cache, use_cache=True, logits_to_keep=1)
            position += ids.shape[1]
            ids = out.logits[:, -1:].argmax(-1)
            words.append(ids.cpu())
        return torch.cat(words, 1)


def main():
    bridge = Bridge(load())
    g = torch.Generator().manual_seed(31)
    for n in range(3 * BATCH):
        commands = bridge.hear(torch.randint(3, 8000, (ORDER,), generator=g))
        if commands is not None:
            print("after", n + 1, "orders:", tuple(commands.shape))


if __name__ == "__main__":
    main()
