"""Recommends films: matrix factorisation with a BPR loss; after each epoch hit rate at 20 over all users."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

USERS, FILMS, DIM = 24000, 9000, 64
CHUNK = 1024 if "--fixed" in sys.argv else USERS


class BPR(nn.Module):
    def __init__(self):
        super().__init__()
        self.user = nn.Embedding(USERS, DIM)
        self.film = nn.Embedding(FILMS, DIM)
        self.bias = nn.Parameter(torch.zeros(FILMS))
        nn.init.normal_(self.user.weight, std=0.05)
        nn.init.normal_(self.film.weight, std=0.05)

    def pair(self, u, i):
        return (self.user(u) * self.film(i)).sum(-1) + self.bias[i]

    def scores(self, users):
        return self.user(users) @ self.film.weight.T + self.bias


def train_epoch(model, optimizer, pairs, batch=4096):
    model.train()
    total = 0.0
    for rows in pairs.split(batch):
        u, i = rows.cuda().unbind(1)
        j = torch.randint(FILMS, (len(rows),)).cuda()
        loss = -F.logsigmoid(model.pair(u, i) - model.pair(u, j)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total


@torch.no_grad()
def hit_rate(model, seen, held_out, k=20):
    model.eval()
    hits = 0
    for users in torch.arange(USERS).split(CHUNK):
        users = users.cuda()
        scores = model.scores(users)
        scores = scores.scatter(1, seen[users.cpu()].cuda(), float("-inf"))
        top = scores.topk(k, 1).indices
        hits += (top == held_out[users.cpu()].cuda()[:, None]).any(1).sum().item()
    return hits / USERS


def main():
    torch.manual_seed(1)
    pairs = torch.stack([torch.randint(USERS, (40000,)), torch.randint(FILMS, (40000,))], 1)
    seen, held_out = torch.randint(FILMS, (USERS, 10)), torch.randint(FILMS, (USERS,))
    model = BPR().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        print("epoch", epoch, "loss", train_epoch(model, optimizer, pairs), "hits", hit_rate(model, seen, held_out))


main()
