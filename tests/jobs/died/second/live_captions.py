"""Captions for a live stream: each chunk of features is encoded with all that came before as left context.

After https://github.com/huggingface/transformers/issues/26588 and https://github.com/pytorch/pytorch/issues/1846
"""
import sys

import torch
from torch import nn


class StreamEncoder(nn.Module):
    def __init__(self, features=80, dim=512, layers=8, heads=8):
        super().__init__()
        self.proj = nn.Linear(features, dim)
        self.attention = nn.ModuleList([nn.MultiheadAttention(dim, heads, batch_first=True) for _ in range(layers)])
        self.ff = nn.ModuleList([nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim)) for _ in range(layers)])
        self.norms = nn.ModuleList([nn.LayerNorm(dim) for _ in range(layers)])

    def forward(self, chunk, context):
        x, fresh = self.proj(chunk), []
        for i, (norm, attention, ff) in enumerate(zip(self.norms, self.attention, self.ff)):
            y = norm(x)
            fresh.append(y)
            keys = y if context is None else torch.cat([context[i], y], 1)
            x = x + attention(y, keys, keys, need_weights=False)[0]
            x = x + ff(x)
        return x, torch.stack(fresh)


class Session:
    def __init__(self, encoder, head, limit):
        self.encoder, self.head, self.limit = encoder, head, limit
        self.context, self.text = None, []

    @torch.no_grad()
    def feed(self, chunk):
        x, fresh = self.encoder(chunk, self.context)
        self.context = fresh if self.context is None else torch.cat([self.context, fresh], dim=2)
        if self.limit:
            self.context = self.context[:, :, -self.limit:].clone()
        self.text.append(self.head(x).argmax(-1).cpu())


def microphone(chunks, streams):
    for _ in range(chunks):
        yield torch.zeros(streams, 200, 80)


def main():
    encoder, head = StreamEncoder().cuda().eval(), nn.Linear(512, 1000).cuda()
    session = Session(encoder, head, 400 if "--fixed" in sys.argv else None)
    for n, chunk in enumerate(microphone(12, 16)):
        session.feed(chunk.cuda())
        print("chunk", n, "of 2 s; context", session.context.size(2))


main()
