"""A reranking service: passages are encoded once by MPNet, and what the encoder gave is looked up when they are asked for again.
"""
import collections
import sys

import torch
from transformers import MPNetConfig, MPNetModel

FIXED = "--fixed" in sys.argv
LIMIT = 64


class Cache(collections.OrderedDict):
    """Keeps what was used last."""

    def put(self, key, value):
        self[key] = value
        self.move_to_end(key)
        if FIXED and len(self) > LIMIT:
            self.popitem(last=False)


class Reranker:
    def __init__(self):
        self.model = MPNetModel(MPNetConfig(vocab_size=9000, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048))
        self.model.cuda().eval()
        self.cache = Cache()

    def encode(self, texts):
        hidden = self.model(input_ids=torch.stack(texts).cuda()).last_hidden_state
        return torch.nn.functional.normalize(hidden, dim=-1)

    def passages(self, numbers, store):
        new = [n for n in numbers if n not in self.cache]
        found = {n: self.cache[n] for n in numbers if n in self.cache}
        if new:
            for n, vectors in zip(new, self.encode([store[n] for n in new])):
                found[n] = vectors.clone()
                self.cache.put(n, found[n])
        return torch.stack([found[n] for n in numbers])

    @torch.inference_mode()
    def rank(self, question, numbers, store):
        q = self.encode([question])[0]
        scores = [(q @ p.T).amax(-1).sum() for p in self.passages(numbers, store)]
        return torch.stack(scores).argsort(descending=True).cpu()


class Store:
    def __getitem__(self, number):
        return torch.full((192,), number % 9000)


def requests(n, per_request=32):
    for k in range(n):
        first = k * per_request * 3 // 4
        yield torch.randint(0, 9000, (24,)), list(range(first, first + per_request))


def main():
    service, store = Reranker(), Store()
    for k, (question, numbers) in enumerate(requests(80)):
        order = service.rank(question, numbers, store)
        if k % 10 == 0:
            print("request", k, "passages", len(order), "in the cache", len(service.cache))


main()
