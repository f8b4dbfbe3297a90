"""A mixture-of-experts transformer with the dispatch of the GShard paper: one-hot masks and einsum.

https://github.com/huggingface/transformers/pull/48131
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class MoE(nn.Module):
    def __init__(self, dim=512, experts=16, grouped=False):
        super().__init__()
        self.gate = nn.Linear(dim, experts, bias=False)
        self.w1 = nn.Parameter(torch.randn(experts, dim, 2 * dim) * 0.02)
        self.w2 = nn.Parameter(torch.randn(experts, 2 * dim, dim) * 0.02)
        self.experts, self.grouped = experts, grouped

    def forward(self, x):
        shape = x.shape
        x = x.reshape(-1, shape[-1])
        capacity = len(x) // self.experts * 2
        gates = self.gate(x).softmax(-1)
        weight, chosen = gates.max(-1)
        if self.grouped:
            slots = torch.arange(len(x), device=x.device).view(self.experts, -1)  # of the sorted tokens
            order = chosen.argsort()
            inputs = x[order[slots]]
            out = torch.bmm(F.gelu(torch.bmm(inputs, self.w1)), self.w2).reshape(len(x), -1)
            return (x + torch.zeros_like(x).index_add(0, order, out) * weight[:, None]).view(shape)
        mask = F.one_hot(chosen, self.experts).float()
        position = (mask.cumsum(0) - 1) * mask
        slot = F.one_hot(position.sum(-1).long().clamp(0, capacity - 1), capacity).float()
        dispatch = torch.einsum("te,tc->tec", mask, slot)
        combine = dispatch * weight[:, None, None]
        inputs = torch.einsum("tec,td->ecd", dispatch, x)
        out = torch.bmm(F.gelu(torch.bmm(inputs, self.w1)), self.w2)
        return (x + torch.einsum("tec,ecd->td", combine, out)).view(shape)


class Block(nn.Module):
    def __init__(self, dim, grouped):
        super().__init__()
        self.norm, self.attn, self.moe = nn.LayerNorm(dim), nn.MultiheadAttention(dim, 8, batch_first=True), MoE(dim, grouped=grouped)

    def forward(self, x):
        y = self.norm(x)
        return self.moe(x + self.attn(y, y, y, need_weights=False)[0])


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
emb, head = nn.Embedding(8000, 512).cuda(), nn.Linear(512, 8000).cuda()
blocks = nn.Sequential(*[Block(512, args.fixed) for _ in range(3)]).cuda()
params = [*emb.parameters(), *blocks.parameters(), *head.parameters()]
opt = torch.optim.AdamW(params, lr=1e-4)
for step in range(6):
    ids = torch.randint(0, 8000, (8, 512), device="cuda")
    loss = F.cross_entropy(head(blocks(emb(ids))).flatten(0, 1), ids.flatten())
    loss.backward()
    opt.step()
    opt.zero_grad()
print(loss.item())
