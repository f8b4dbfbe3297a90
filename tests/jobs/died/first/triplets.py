"""Metric learning with a triplet loss over all triplets of a batch.

https://github.com/huggingface/sentence-transformers/pull/4029
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


def pairwise(x):
    sq = (x * x).sum(1)
    return (sq[:, None] + sq[None] - 2 * x @ x.t()).clamp(min=0) + 1e-12


def batch_all_triplet_loss(emb, labels, margin=0.2):
    d = pairwise(emb).sqrt()
    loss = d.unsqueeze(2) - d.unsqueeze(1) + margin
    same = labels[:, None] == labels[None]
    mask = same.unsqueeze(2) & ~same.unsqueeze(1)
    loss = F.relu(loss * mask.float())
    return loss.sum() / (mask.sum() + 1e-16)


def batch_hard_triplet_loss(emb, labels, margin=0.2):
    d = pairwise(emb).sqrt()
    same = labels[:, None] == labels[None]
    positive = (d * same).max(1).values
    negative = (d + 1e4 * same).min(1).values
    return F.relu(positive - negative + margin).mean()


parser = argparse.ArgumentParser()
parser.add_argument("--batch", type=int, default=768)
parser.add_argument("--fixed", action="store_true")
a = parser.parse_args()
loss_fn = batch_hard_triplet_loss if a.fixed else batch_all_triplet_loss
net = nn.Sequential(nn.Linear(2048, 2048), nn.BatchNorm1d(2048), nn.ReLU(), nn.Linear(2048, 1024), nn.BatchNorm1d(1024), nn.ReLU(),
                    nn.Linear(1024, 256)).cuda()
opt = torch.optim.Adam(net.parameters(), 1e-3)
for step in range(8):
    x, y = torch.randn(a.batch, 2048, device="cuda"), torch.randint(0, 64, (a.batch,), device="cuda")
    loss = loss_fn(F.normalize(net(x), dim=1), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
print(float(loss))
