"""Writes children's stories with a small decoder by hand; prompts are continued one after another, each with a cache of keys and values."""
import math
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
VOCABULARY, DIM, HEADS, LAYERS = 6000, 384, 6, 8


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)

    def forward(self, x, past):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=past is None)
        return self.out(y.transpose(1, 2).reshape(b, t, DIM)), (k, v)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention, self.norm1, self.norm2 = Attention(), nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.mlp = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, past):
        y, present = self.attention(self.norm1(x), past)
        x = x + y
        return x + self.mlp(self.norm2(x)), present


class Decoder(nn.Module):
    def __init__(self, context=1024):
        super().__init__()
        self.token, self.position = nn.Embedding(VOCABULARY, DIM), nn.Embedding(context, DIM)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)

    def forward(self, ids, cache=None):
        start = cache[0][0].shape[2] if cache else 0
        x = self.token(ids) + self.position(torch.arange(start, start + ids.shape[1], device=ids.device))
        presents = []
        for k, layer in enumerate(self.layers):
            x, present = layer(x, cache[k] if cache else None)
            presents.append(present)
        return self.norm(x[:, -1]) @ self.token.weight.T / math.sqrt(DIM), presents


class Writer:
    def __init__(self):
        self.model = Decoder().cuda().eval()
        self.chapters = {}

    @torch.no_grad()
    def write(self, name, prompts, n):
        ids, cache = prompts.cuda(), None
        words = [prompts]
        for _ in range(n):
            logits, cache = self.model(ids, cache)
            ids = logits.argmax(-1, keepdim=True)
            words.append(ids.cpu())
        text = torch.cat(words, 1)
        # a reader may ask for the next chapter
        self.chapters[name] = text if FIXED else (text, cache)
        return text


writer = Writer()
for k in range(16):
    text = writer.write("story%d" % k, torch.randint(VOCABULARY, (8, 200)), 56)
    print(k, tuple(text.shape))
print(len(writer.chapters), "stories")
