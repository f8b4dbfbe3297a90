"""A character model with segment recurrence (as Transformer-XL has it) on novels: each layer attends to the states of the segment before."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

DETACH = "--fixed" in sys.argv
SEGMENT, BATCH, WIDTH, LAYERS, HEADS, CHARACTERS = 128, 16, 256, 6, 4, 120


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.q, self.kv, self.o = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, 2 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))
        self.n1, self.n2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)

    def split(self, x):
        return x.unflatten(-1, (HEADS, -1)).transpose(1, 2)

    def forward(self, x, memory):
        context = torch.cat([memory, x], dim=1)
        k, v = self.kv(self.n1(context)).chunk(2, -1)
        mask = torch.ones(x.shape[1], context.shape[1], dtype=torch.bool, device=x.device).tril(context.shape[1] - x.shape[1])
        y = F.scaled_dot_product_attention(self.split(self.q(self.n1(x))), self.split(k), self.split(v), attn_mask=mask)
        x = x + self.o(y.transpose(1, 2).flatten(2))
        return x + self.mlp(self.n2(x))


class SegmentModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.position = nn.Embedding(CHARACTERS, WIDTH), nn.Embedding(SEGMENT, WIDTH)
        self.layers = nn.ModuleList([Layer() for _ in range(LAYERS)])
        self.head = nn.Linear(WIDTH, CHARACTERS)

    def start(self):
        return [torch.zeros(BATCH, SEGMENT, WIDTH, device="cuda") for _ in self.layers]

    def forward(self, ids, memories):
        x = self.embed(ids) + self.position(torch.arange(ids.shape[1], device=ids.device))
        new = []
        for layer, memory in zip(self.layers, memories):
            new.append(x.detach() if DETACH else x)
            x = layer(x, memory)
        return self.head(x), new


def segments(novel):
    for start in range(0, novel.shape[1] - SEGMENT - 1, SEGMENT):
        piece = novel[:, start:start + SEGMENT + 1].to("cuda", non_blocking=True)
        yield piece[:, :-1], piece[:, 1:]


def main():
    torch.manual_seed(2)
    model = SegmentModel().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=2.5e-4)
    for number in range(3):
        novel = torch.randint(0, CHARACTERS, (BATCH, 12 * SEGMENT + 1))
        memories, total, n = model.start(), 0.0, 0
        optimizer.zero_grad()
        for ids, targets in segments(novel):
            logits, memories = model(ids, memories)
            loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
            if DETACH:
                loss.backward()
                loss = loss.detach()
            total = total + loss
            n += 1
        if not DETACH:
            total.backward()
        optimizer.step()
        print("novel", number, "loss", float(total) / n)


main()
