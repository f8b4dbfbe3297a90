"""Language model for shipping bulletins with linear position biases; every batch is as long as its longest bulletin."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB, DIM, HEADS, LAYERS = 5000, 256, 8, 4


class PositionBias(nn.Module):
    def __init__(self, heads):
        super().__init__()
        self.register_buffer("slopes", 2.0 ** (-8.0 * torch.arange(1, heads + 1) / heads))
        self.known = {}

    def build(self, length):
        pos = torch.arange(length, device=self.slopes.device)
        distance = (pos[None] - pos[:, None]).float()
        bias = distance[None] * self.slopes[:, None, None]
        return bias.masked_fill_(distance[None] > 0, float("-inf"))

    def forward(self, length):
        if "--fixed" in sys.argv:
            return self.build(length)
        if length not in self.known:
            self.known[length] = self.build(length)
        return self.known[length]


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.qkv, self.proj = nn.Linear(DIM, 3 * DIM), nn.Linear(DIM, DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.GELU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, bias):
        b, n, _ = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, HEADS, DIM // HEADS).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias[None])
        x = x + self.proj(y.transpose(1, 2).reshape(b, n, DIM))
        return x + self.ff(self.n2(x))


class BulletinLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.bias = nn.Embedding(VOCAB, DIM), PositionBias(HEADS)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm = nn.LayerNorm(DIM)

    def forward(self, ids):
        x, bias = self.embed(ids), self.bias(ids.shape[1])
        for layer in self.layers:
            x = layer(x, bias)
        return F.linear(self.norm(x), self.embed.weight)


def batches(n):
    g = torch.Generator().manual_seed(1867)
    for _ in range(n):
        longest = int(torch.randint(500, 1250, (1,), generator=g))
        yield torch.randint(0, VOCAB, (2, longest), generator=g)


model = BulletinLM().cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4)
for step, ids in enumerate(batches(70)):
    ids = ids.cuda()
    loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print("step", step, "length", ids.shape[1], "loss", loss.item())
