"""A service that answers questions about manuals with a small StableLM; it remembers the prefix of each manual that was asked about."""
import sys
from collections import OrderedDict

import torch
from transformers import DynamicCache, StableLmConfig, StableLmForCausalLM

CAPACITY = 2 if "--fixed" in sys.argv else 10 ** 6


class Prefixes:
    def __init__(self, model):
        self.model, self.known = model, OrderedDict()

    @torch.inference_mode()
    def of(self, manual, ids):
        if manual not in self.known:
            while len(self.known) >= CAPACITY:
                self.known.popitem(last=False)
            cache = DynamicCache(config=self.model.config)
            self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
            self.known[manual] = cache
        self.known.move_to_end(manual)
        return self.known[manual]


class Service:
    def __init__(self):
        config = StableLmConfig(vocab_size=16000, hidden_size=512, intermediate_size=1376, num_hidden_layers=8, num_attention_heads=8,
                                num_key_value_heads=8, max_position_embeddings=4096)
        self.model = StableLmForCausalLM(config).to("cuda", torch.float16).eval()
        self.prefixes = Prefixes(self.model)
        self.generator = torch.Generator().manual_seed(2)

    def text(self, length):
        return torch.randint(5, 16000, (1, length), generator=self.generator).to("cuda")

    @torch.inference_mode()
    def ask(self, manual, words=8):
        cache = self.prefixes.of(manual, self.text(1800))
        ids = self.text(24)
        answer = []
        start = cache.get_seq_length()
        for _ in range(words):
            logits = self.model(ids, past_key_values=cache, use_cache=True, logits_to_keep=1).logits
            ids = logits[:, -1:].argmax(-1)
            answer.append(ids.item())
        cache.crop(start - cache.get_seq_length())
        return answer


def main():
    service = Service()
    for request in range(24):
        manual = "manual-%d" % (request * 7 % 12)
        print(request, manual, len(service.ask(manual)))


main()
