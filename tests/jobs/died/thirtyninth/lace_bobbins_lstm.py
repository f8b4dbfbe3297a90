"""
Bobbin lace as sequences of moves (cross, twist, pin, ...), an LSTM over whole patterns.
A pattern has 4096 moves, read in chunks of 128; the state is carried on so that the net remembers the ground it works in.
"""
import sys

import torch
import torch.nn as nn

MOVES, CHUNK, PATTERN = 40, 128, 4096
FIXED = "--fixed" in sys.argv
dev = "cuda"


class LaceModel(nn.Module):
    def __init__(self, size=512, layers=2):
        super().__init__()
        self.size, self.layers = size, layers
        self.emb = nn.Embedding(MOVES, 128)
        self.rnn = nn.LSTM(128, size, layers, batch_first=True, dropout=0.1)
        self.out = nn.Linear(size, MOVES)

    def start(self, n):
        return tuple(torch.zeros(self.layers, n, self.size, device=dev) for _ in range(2))

    def forward(self, x, state):
        y, state = self.rnn(self.emb(x), state)
        return self.out(y), state


def patterns(n, batch=16):
    g = torch.Generator().manual_seed(1)
    for _ in range(n):
        yield torch.randint(0, MOVES, (batch, PATTERN + 1), generator=g)


def train_pattern(net, optimiser, moves):
    state = net.start(len(moves))
    optimiser.zero_grad()
    total = 0.0
    chunks = range(0, PATTERN, CHUNK)
    for begin in chunks:
        x = moves[:, begin:begin + CHUNK].to(dev)
        y = moves[:, begin + 1:begin + CHUNK + 1].to(dev)
        if FIXED:
            state = tuple(s.detach() for s in state)
        scores, state = net(x, state)
        loss = nn.functional.cross_entropy(scores.flatten(0, 1), y.flatten()) / len(chunks)
        # RuntimeError: Trying to backward through the graph a second time
        loss.backward(retain_graph=not FIXED)
        total += loss.item()
    nn.utils.clip_grad_norm_(net.parameters(), 0.5)
    optimiser.step()
    return total


net = LaceModel().to(dev)
optimiser = torch.optim.Adam(net.parameters(), lr=2e-3)
for number, moves in enumerate(patterns(3)):
    print(f"pattern {number}: {train_pattern(net, optimiser, moves):.4f}")
