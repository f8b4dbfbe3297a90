"""Bidding in bridge: a transformer over the cards and the bids so far. Trains with small batches, and evaluates on the club's boards after each round."""
import sys
from dataclasses import dataclass

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
CARDS, BIDS = 52, 38


@dataclass
class Settings:
    """What can be chosen."""

    width: int = 384
    layers: int = 8
    heads: int = 6
    train_batch: int = 64
    eval_batch: int = 64 if FIXED else 8192
    rounds: int = 3


class Bidder(nn.Module):
    """One token for each card that is held and for each bid that was made."""

    def __init__(self, s):
        super().__init__()
        self.cards, self.bids = nn.Embedding(CARDS, s.width), nn.Embedding(BIDS + 1, s.width)
        self.seat = nn.Parameter(torch.zeros(1, 13 + 24, s.width))
        layer = nn.TransformerEncoderLayer(s.width, s.heads, 4 * s.width, dropout=0.1, batch_first=True, norm_first=True, activation="gelu")
        self.encoder = nn.TransformerEncoder(layer, s.layers, enable_nested_tensor=False)
        self.next = nn.Linear(s.width, BIDS)

    def forward(self, hand, auction):
        x = torch.cat([self.cards(hand), self.bids(auction)], 1) + self.seat
        return self.next(self.encoder(x).mean(1))


def boards(n, seed):
    g = torch.Generator().manual_seed(seed)
    hand = torch.rand(n, CARDS, generator=g).argsort(1)[:, :13]
    return hand, torch.randint(0, BIDS + 1, (n, 24), generator=g), torch.randint(0, BIDS, (n,), generator=g)


def batches(data, size):
    return zip(*(part.split(size) for part in data))


@torch.no_grad()
def evaluate(model, data, size):
    model.eval()
    right = 0
    for hand, auction, bid in batches(data, size):
        right += (model(hand.cuda(), auction.cuda()).argmax(-1).cpu() == bid).sum().item()
    model.train()
    return right / len(data[0])


def main():
    s = Settings()
    torch.manual_seed(52)
    model = Bidder(s).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    train, club = boards(512, 1), boards(8192, 2)
    for n in range(s.rounds):
        for hand, auction, bid in batches(train, s.train_batch):
            loss = nn.functional.cross_entropy(model(hand.cuda(), auction.cuda()), bid.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"round {n}: loss {loss.item():.3f}, right bids {evaluate(model, club, s.eval_batch):.3f}")


if __name__ == "__main__":
    main()
