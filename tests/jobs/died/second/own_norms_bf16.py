"""A decoder in bfloat16 with its own RMSNorm, which computes in float32 for the sake of accuracy.

After https://github.com/MIC-DKFZ/medicaldetectiontoolkit/issues/28
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class RMSNorm(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        if FIXED:
            return F.rms_norm(x, x.shape[-1:], self.weight, 1e-6)
        y = x.float()
        y = y * torch.rsqrt(y.pow(2).mean(-1, keepdim=True) + 1e-6)
        return y * self.weight.float()


class Layer(nn.Module):
    def __init__(self, dim, heads, hidden):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = RMSNorm(dim), RMSNorm(dim)
        self.qkv, self.o = nn.Linear(dim, 3 * dim, bias=False), nn.Linear(dim, dim, bias=False)
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((dim, hidden), (dim, hidden), (hidden, dim)))

    def linear(self, layer, x):
        return F.linear(x, layer.weight.to(x.dtype))

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.linear(self.qkv, self.norm1(x)).view(b, n, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d)
        x = x + self.linear(self.o, y)
        y = self.norm2(x)
        return x + self.linear(self.down, F.silu(self.linear(self.gate, y)) * self.linear(self.up, y))


class Decoder(nn.Module):
    def __init__(self, vocabulary=8192, dim=640, heads=10, layers=8):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.layers = nn.ModuleList([Layer(dim, heads, 3 * dim) for _ in range(layers)])
        self.norm, self.head = RMSNorm(dim), nn.Linear(dim, vocabulary, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return F.linear(self.norm(x).to(self.head.weight.dtype), self.head.weight)


def main():
    model = Decoder().to("cuda", torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for step in range(6):
        ids = torch.randint(8192, (4, 1025)).to("cuda")
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())


if __name__ == "__main__":
    main()
