"""Makes the datastore of a nearest-neighbour language model: each token's state, and the token that follows it."""
import sys

import torch
from transformers import OPTConfig, OPTModel

FIXED = "--fixed" in sys.argv


class Store:
    """Keys and values of all tokens so far."""

    def __init__(self, width):
        device = "cpu" if FIXED else "cuda"
        self.keys = torch.empty(0, width, device=device)
        self.values = torch.empty(0, dtype=torch.long, device=device)

    def add(self, states, following):
        self.keys = torch.cat([self.keys, states.to(self.keys.device)])
        self.values = torch.cat([self.values, following.to(self.values.device)])

    def __len__(self):
        return len(self.values)


def windows(n, batch, length):
    generator = torch.Generator().manual_seed(15)
    for _ in range(n):
        yield torch.randint(3, 9000, (batch, length + 1), generator=generator)


@torch.no_grad()
def build(model, data):
    store = Store(model.config.hidden_size)
    model.eval()
    for n, ids in enumerate(data):
        ids = ids.to("cuda")
        states = model(input_ids=ids[:, :-1], use_cache=False).last_hidden_state
        store.add(states.flatten(0, 1), ids[:, 1:].flatten())
        if n % 8 == 0:
            print("tokens in the store:", len(store))
    return store


def main():
    config = OPTConfig(vocab_size=9000, hidden_size=384, ffn_dim=1536, num_hidden_layers=5, num_attention_heads=6, max_position_embeddings=256,
                       word_embed_proj_dim=384)
    model = OPTModel(config).to("cuda")
    store = build(model, windows(40, 24, 128))
    print("keys:", tuple(store.keys.shape))


main()
