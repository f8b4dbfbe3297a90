"""Trains a sparse retriever in the way of SPLADE: a masked language model whose logits, pooled over the text, weigh the words."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import DistilBertConfig, DistilBertForMaskedLM

FIXED = "--fixed" in sys.argv
VOCABULARY = 20000


class Sparse(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = DistilBertConfig(vocab_size=VOCABULARY, dim=320, n_layers=4, n_heads=5, hidden_dim=1280, max_position_embeddings=160)
        lm = DistilBertForMaskedLM(config)
        self.body, self.dense, self.norm, self.words = lm.distilbert, lm.vocab_transform, lm.vocab_layer_norm, lm.vocab_projector

    def pooled(self, states, mask):
        logits = self.words(self.norm(F.gelu(self.dense(states))))
        weights = torch.log1p(F.relu(logits)) * mask.unsqueeze(-1)
        return weights.amax(1)

    def forward(self, ids, mask):
        states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        if not FIXED:
            return self.pooled(states, mask)
        parts = zip(states.split(2), mask.split(2))
        return torch.cat([checkpoint(self.pooled, s, m, use_reentrant=False) for s, m in parts])


def flops(weights):
    return (weights.mean(0) ** 2).sum()


def triples(n, batch):
    generator = torch.Generator().manual_seed(3)
    for _ in range(n):
        yield [torch.randint(4, VOCABULARY, (batch, length), generator=generator) for length in (24, 112, 112)]


def encode(model, ids):
    ids = ids.to("cuda")
    return model(ids, torch.ones_like(ids))


def main():
    model = Sparse().to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    model.train()
    for step, (query, good, bad) in enumerate(triples(4, 12)):
        q, g, b = (encode(model, ids) for ids in (query, good, bad))
        margin = (q * g).sum(-1) - (q * b).sum(-1)
        loss = F.softplus(-margin).mean() + 1e-3 * flops(q) + 1e-3 * (flops(g) + flops(b))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())


main()
