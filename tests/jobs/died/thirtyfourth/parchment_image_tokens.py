"""Autoregressive prior over VQ codes of parchment photographs (32x32 codes out of 16384), trained with label smoothing."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

CODES, SIDE = 16384, 32


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2, self.heads = nn.LayerNorm(d), nn.LayerNorm(d), heads
        self.qkv, self.out = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, d))
        return x + self.mlp(self.n2(x))


class CodePrior(nn.Module):
    def __init__(self, d=192, depth=3):
        super().__init__()
        self.codes, self.rows, self.cols = nn.Embedding(CODES + 1, d), nn.Embedding(SIDE, d), nn.Embedding(SIDE, d)
        self.layers = nn.ModuleList(Layer(d, 6) for _ in range(depth))
        self.norm, self.head = nn.LayerNorm(d), nn.Linear(d, CODES)

    def forward(self, codes):
        at = torch.arange(SIDE * SIDE, device=codes.device)
        start = torch.full_like(codes[:, :1], CODES)
        x = self.codes(torch.cat([start, codes[:, :-1]], 1)) + self.rows(at // SIDE) + self.cols(at % SIDE)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def smoothed_loss(logits, codes, eps=0.1):
    if "--fixed" in sys.argv:
        return F.cross_entropy(logits.flatten(0, 1), codes.flatten(), label_smoothing=eps)
    truth = F.one_hot(codes, CODES)
    wanted = truth * (1 - eps) + eps / CODES
    return -(wanted * F.log_softmax(logits, -1)).sum(-1).mean()


def main():
    g = torch.Generator().manual_seed(1215)
    prior = CodePrior().cuda()
    opt = torch.optim.AdamW(prior.parameters(), lr=3e-4)
    for step in range(8):
        codes = torch.randint(0, CODES, (6, SIDE * SIDE), generator=g).cuda()
        loss = smoothed_loss(prior(codes), codes)
        opt.zero_grad()
        loss.backward()
        opt.step()
        print(step, loss.item())


main()
