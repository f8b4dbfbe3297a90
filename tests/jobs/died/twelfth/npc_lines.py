"""Writes lines for a game's characters with our own decoder, many characters at a time; keys and values are kept in tensors made before the loop."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
VOCABULARY, WIDTH, LAYERS, HEADS, LONGEST = 16000, 512, 8, 8, 4096
CHARACTERS, PROMPT, NEW = 48, 64, 40


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x, cache, start):
        b, t, _ = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        keys, values = cache
        keys[:, :, start:start + t], values[:, :, start:start + t] = k, v
        y = F.scaled_dot_product_attention(q, keys[:, :, :start + t], values[:, :, :start + t], is_causal=t > 1)
        return self.out(y.transpose(1, 2).reshape(b, t, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2, self.attention = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH), Attention()
        self.feed = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x, cache, start):
        x = x + self.attention(self.norm1(x), cache, start)
        return x + self.feed(self.norm2(x))


class Writer(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCABULARY, WIDTH), nn.Embedding(LONGEST, WIDTH)
        self.blocks, self.norm = nn.ModuleList(Block() for _ in range(LAYERS)), nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def caches(self, batch, length):
        shape = batch, HEADS, length, WIDTH // HEADS
        return [tuple(torch.zeros(shape, dtype=torch.float16, device="cuda") for _ in "kv") for _ in self.blocks]

    def forward(self, ids, caches, start):
        x = self.tokens(ids) + self.places.weight[start:start + ids.shape[1]]
        for block, cache in zip(self.blocks, caches):
            x = block(x, cache, start)
        return self.head(self.norm(x[:, -1]))


@torch.inference_mode()
def write(model, prompts, new):
    length = prompts.shape[1] + new if FIXED else LONGEST
    caches, at, ids, lines = model.caches(len(prompts), length), 0, prompts, []
    for _ in range(new):
        logits = model(ids, caches, at)
        at += ids.shape[1]
        ids = logits.argmax(-1, keepdim=True).clamp(0, 0)
        lines.append(ids.cpu())
    return torch.cat(lines, 1)


model = Writer().half().cuda().eval()
for scene in range(2):
    print("scene", scene, write(model, torch.randint(0, VOCABULARY, (CHARACTERS, PROMPT)).cuda(), NEW).shape)
