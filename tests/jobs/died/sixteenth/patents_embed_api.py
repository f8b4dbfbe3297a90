"""The embedding worker of a patent search: batches of claims come from a queue, and claims seen before are answered from a cache."""
import functools
import queue
import sys

import torch
from transformers import MPNetConfig, MPNetModel

FIXED = "--fixed" in sys.argv


class Embedder:
    def __init__(self):
        config = MPNetConfig(vocab_size=15000, hidden_size=512, num_hidden_layers=5, num_attention_heads=8, intermediate_size=2048,
                             max_position_embeddings=260)
        self.model = MPNetModel(config, add_pooling_layer=False).cuda().eval().requires_grad_(False)

    def tokens(self, claims):
        rows = [torch.randint(3, 15000, (256,), generator=torch.Generator().manual_seed(hash(c) % 2 ** 31)) for c in claims]
        return torch.stack(rows).cuda()

    @functools.lru_cache(maxsize=None)
    def states(self, claims):
        """What the model says of each token; claims is a tuple of texts."""
        return self.model(self.tokens(claims)).last_hidden_state

    @functools.lru_cache(maxsize=None)
    def vectors(self, claims):
        states = self.states.__wrapped__(self, claims) if FIXED else self.states(claims)
        return torch.nn.functional.normalize(states.mean(1), dim=-1).cpu()


def worker(embedder, requests):
    answered = 0
    while True:
        claims = requests.get()
        if claims is None:
            return answered
        vectors = embedder.vectors(tuple(claims))
        answered += len(vectors)
        if answered % 640 == 0:
            print(answered, "claims", vectors.shape, embedder.vectors.cache_info())


if __name__ == "__main__":
    requests = queue.Queue()
    for n in range(110):
        page = n if n % 5 else n // 2
        requests.put(["claim %d of page %d" % (i, page) for i in range(32)])
    requests.put(None)
    print(worker(Embedder(), requests), "claims in all")
