"""Next item of a grocery basket (GRU4Rec); 150 000 articles, orders of at most 24."""
import sys
from typing import Iterator

import torch
import torch.nn as nn
import torch.nn.functional as F

ARTICLES: int = 150_000
DIM: int = 96
ORDER: int = 24


class BasketModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.articles = nn.Embedding(ARTICLES, DIM)
        self.gru = nn.GRU(DIM, DIM, num_layers=2, batch_first=True, dropout=0.1)
        self.norm = nn.LayerNorm(DIM)

    def states(self, orders: torch.Tensor) -> torch.Tensor:
        return self.norm(self.gru(self.articles(orders))[0])

    def full_loss(self, orders: torch.Tensor) -> torch.Tensor:
        h = self.states(orders[:, :-1])
        scores = h @ self.articles.weight.T
        return F.cross_entropy(scores.reshape(-1, ARTICLES), orders[:, 1:].reshape(-1))

    def sampled_loss(self, orders: torch.Tensor, negatives: int = 2000) -> torch.Tensor:
        h, following = self.states(orders[:, :-1]).reshape(-1, DIM), orders[:, 1:].reshape(-1)
        drawn = torch.randint(0, ARTICLES, (negatives,), device=orders.device)
        positive = (h * self.articles(following)).sum(-1, keepdim=True)
        scores = torch.cat([positive, h @ self.articles(drawn).T], 1)
        return F.cross_entropy(scores, torch.zeros(len(h), dtype=torch.long, device=h.device))

    @torch.no_grad()
    def recommend(self, orders: torch.Tensor, k: int = 20) -> torch.Tensor:
        return (self.states(orders)[:, -1] @ self.articles.weight.T).topk(k).indices


def orders(steps: int, size: int) -> Iterator[torch.Tensor]:
    rng = torch.Generator().manual_seed(77)
    for _ in range(steps):
        yield torch.randint(0, ARTICLES, (size, ORDER), generator=rng)


def train(model: BasketModel) -> None:
    loss_of = model.sampled_loss if "--fixed" in sys.argv else model.full_loss
    opt = torch.optim.Adagrad(model.parameters(), lr=0.05)
    for step, batch in enumerate(orders(8, 80)):
        loss = loss_of(batch.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 4 == 3:
            print("step", step, "loss", loss.item())


def main() -> None:
    model = BasketModel().cuda()
    train(model)
    model.eval()
    top = [model.recommend(batch.cuda()).cpu() for batch in orders(2, 32)]
    print("recommended", torch.cat(top).shape)


if __name__ == "__main__":
    main()
