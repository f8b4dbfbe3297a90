"""Gated Transformer-XL on novellas: each one is read in segments, and a layer may look at its own states of the segment before."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

fixed = "--fixed" in sys.argv
V, D, H, SEG = 5000, 320, 5, 128


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.x, self.y = nn.Linear(D, D), nn.Linear(D, D, bias=False)

    def forward(self, x, y):
        g = torch.sigmoid(self.x(x) + self.y(y) - 1.0)
        return (1 - g) * x + g * y


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)
        self.q, self.kv, self.o = nn.Linear(D, D), nn.Linear(D, 2 * D), nn.Linear(D, D)
        self.ff = nn.Sequential(nn.Linear(D, 4 * D), nn.GELU(), nn.Linear(4 * D, D))
        self.g1, self.g2 = Gate(), Gate()

    def heads(self, t):
        return t.unflatten(-1, (H, D // H)).transpose(1, 2)

    def forward(self, x, memory):
        context = x if memory is None else torch.cat([memory, x], 1)
        k, v = self.kv(self.n1(context)).chunk(2, -1)
        T, C = x.shape[1], context.shape[1]
        mask = torch.ones(T, C, dtype=torch.bool, device=x.device).tril(C - T)
        a = F.scaled_dot_product_attention(self.heads(self.q(self.n1(x))), self.heads(k), self.heads(v), attn_mask=mask)
        x = self.g1(x, self.o(a.transpose(1, 2).flatten(2)))
        return self.g2(x, self.ff(self.n2(x)))


class GTrXL(nn.Module):
    def __init__(self, depth=5):
        super().__init__()
        self.embed = nn.Embedding(V, D)
        self.layers = nn.ModuleList(Layer() for _ in range(depth))
        self.head = nn.Linear(D, V)

    def forward(self, ids, memories):
        x, states = self.embed(ids), []
        for layer, memory in zip(self.layers, memories):
            states.append(x)
            x = layer(x, memory)
        return self.head(x), states


gen = torch.Generator().manual_seed(0)
model = GTrXL().cuda()
opt = torch.optim.AdamW(model.parameters(), lr=2e-4)

for book in range(3):
    text = torch.randint(0, V, (8, 8 * SEG + 1), generator=gen)
    memories, losses = [None] * len(model.layers), []
    opt.zero_grad()
    for s in range(8):
        ids, target = text[:, s * SEG:(s + 1) * SEG].cuda(), text[:, s * SEG + 1:(s + 1) * SEG + 1].cuda()
        logits, memories = model(ids, memories)
        loss = F.cross_entropy(logits.flatten(0, 1), target.flatten())
        if fixed:
            memories = [m.detach() for m in memories]
            loss.backward()
        else:
            loss.backward(retain_graph=True)
        losses.append(loss.item())
    opt.step()
    print("novella", book, "loss", sum(losses) / len(losses))
