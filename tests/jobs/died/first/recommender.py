"""A recommender with large tables of users and items, trained with plain SGD.

https://github.com/NVIDIA/Megatron-LM/issues/92
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class TwoTowers(nn.Module):
    def __init__(self, users, items, dim, sparse):
        super().__init__()
        self.user, self.item = nn.Embedding(users, dim, sparse=sparse), nn.Embedding(items, dim, sparse=sparse)
        self.mlp = nn.Sequential(nn.Linear(2 * dim, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, u, i):
        return self.mlp(torch.cat([self.user(u), self.item(i)], -1)).squeeze(-1)


parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
with torch.device("cuda"):
    model = TwoTowers(1_500_000, 60_000, 64, sparse=args.fixed)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    u, i = torch.randint(0, 1_500_000, (2048,), device="cuda"), torch.randint(0, 60_000, (2048,), device="cuda")
    loss = F.binary_cross_entropy_with_logits(model(u, i), torch.ones(2048, device="cuda"))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
