"""A language model whose feed-forward layers are mixtures of experts: tokens go to experts by one-hot tensors and einsum.

After https://github.com/pyg-team/pytorch_geometric/issues/5101, which makes a dense tensor of the same kind
"""
import sys

import torch
from torch import nn
from torch.nn import functional as F


class Experts(nn.Module):
    def __init__(self, dim, experts, factor=1.25, in_groups=False):
        super().__init__()
        self.count, self.factor, self.in_groups = experts, factor, in_groups
        self.gate = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, 2 * dim) * 0.02)
        self.w2 = nn.Parameter(torch.randn(experts, 2 * dim, dim) * 0.02)

    def route(self, x):
        capacity = int(self.factor * len(x) / self.count)
        probabilities = self.gate(x).softmax(-1)
        weight, expert = probabilities.max(-1)
        chosen = F.one_hot(expert.clamp(0, self.count - 1), self.count).float()
        place = (chosen.cumsum(0) * chosen - 1).clamp(0, capacity - 1).long()
        dispatch = chosen.unsqueeze(-1) * F.one_hot(place, capacity).float()
        combine = dispatch * weight[:, None, None]
        h = torch.einsum("tec,td->ecd", dispatch, x)
        h = torch.einsum("ech,ehd->ecd", F.gelu(torch.einsum("ecd,edh->ech", h, self.w1)), self.w2)
        return torch.einsum("tec,ecd->td", combine, h)

    def forward(self, x):
        tokens = x.flatten(0, 1)
        groups = tokens.chunk(16) if self.in_groups else [tokens]
        return torch.cat([self.route(g) for g in groups]).view_as(x)


class Block(nn.Module):
    def __init__(self, dim, in_groups):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.o = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.experts = Experts(dim, 16, in_groups=in_groups)

    def forward(self, x):
        b, n, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, n, 3, 6, d // 6).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, n, d))
        return x + self.experts(self.n2(x))


class MoELM(nn.Module):
    def __init__(self, in_groups, vocabulary=4096, dim=384, layers=3):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim)
        self.blocks = nn.Sequential(*[Block(dim, in_groups) for _ in range(layers)])
        self.head = nn.Linear(dim, vocabulary)

    def forward(self, ids):
        return self.head(self.blocks(self.embed(ids)))


net = MoELM("--fixed" in sys.argv).to("cuda")
adam = torch.optim.Adam(net.parameters(), lr=2e-4)
for step in range(5):
    ids = torch.randint(4096, (12, 513)).to("cuda")
    loss = F.cross_entropy(net(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
    adam.zero_grad()
    loss.backward()
    adam.step()
    print(step, loss.item())
