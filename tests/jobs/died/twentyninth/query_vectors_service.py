"""The service of the search team that turns queries into vectors per token; queries come again often, so that answers are kept."""
import sys
import time
from collections import OrderedDict
from dataclasses import dataclass

import torch
from transformers import MPNetConfig, MPNetModel


@dataclass
class ServiceConfig:
    tokens: int = 32
    dim: int = 384
    max_batch: int = 256
    cache_entries: int = 2048 if "--fixed" in sys.argv else 0  # 0: all of them
    device: str = "cuda"


class VectorCache:
    def __init__(self, limit):
        self.limit, self.entries = limit, OrderedDict()
        self.hits = self.misses = 0

    def get(self, key):
        vectors = self.entries.get(key)
        self.hits, self.misses = self.hits + (vectors is not None), self.misses + (vectors is None)
        return vectors

    def put(self, key, vectors):
        self.entries[key] = vectors
        while self.limit and len(self.entries) > self.limit:
            self.entries.popitem(last=False)


class QueryVectors:
    def __init__(self, cfg):
        self.cfg = cfg
        config = MPNetConfig(vocab_size=8000, hidden_size=cfg.dim, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1024)
        self.encoder = MPNetModel(config, add_pooling_layer=False).to(cfg.device).eval()
        self.cache = VectorCache(cfg.cache_entries)

    @torch.inference_mode()
    def encode(self, ids):
        states = self.encoder(input_ids=ids.to(self.cfg.device)).last_hidden_state
        return torch.nn.functional.normalize(states, dim=-1)

    def answer(self, queries):
        new = [q for q in queries if self.cache.get(q) is None]
        fresh = {}
        for start in range(0, len(new), self.cfg.max_batch):
            part = new[start:start + self.cfg.max_batch]
            fresh.update(zip(part, self.encode(torch.tensor(part)).clone()))
        for query, vectors in fresh.items():
            self.cache.put(query, vectors)
        return [fresh[q] if q in fresh else self.cache.get(q) for q in queries]


def traffic(cfg, bursts=110, size=256):
    g = torch.Generator().manual_seed(5)
    popular = [tuple(q) for q in torch.randint(4, 8000, (40, cfg.tokens), generator=g).tolist()]
    for _ in range(bursts):
        yield popular[:20] + [tuple(q) for q in torch.randint(4, 8000, (size - 20, cfg.tokens), generator=g).tolist()]


def main():
    service, began = QueryVectors(ServiceConfig()), time.time()
    for number, queries in enumerate(traffic(service.cfg)):
        answers = service.answer(queries)
        if number % 20 == 0:
            print(f"{time.time() - began:.1f} s: {len(answers)} answers, {service.cache.hits} hits, {service.cache.misses} misses")


main()
