"""Arrival times of couriers from the last 64 positions of their route; a regression with a small transformer."""
import logging
import sys

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stdout)
log = logging.getLogger("eta")


class Layer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.heads = heads
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.proj = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class EtaModel(nn.Module):
    def __init__(self, inputs=9, d=128, layers=4):
        super().__init__()
        self.embed, self.position = nn.Linear(inputs, d), nn.Parameter(torch.zeros(64, d))
        self.layers = nn.Sequential(*[Layer(d, 4) for _ in range(layers)])
        self.head = nn.Linear(d, 1)

    def forward(self, x):
        return self.head(self.layers(self.embed(x) + self.position).mean(1)).squeeze(-1)


class Fitter:
    def __init__(self, model, criterion, lr, device="cuda"):
        self.model, self.criterion, self.device = model.to(device), criterion, device
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
        self.history = []

    def _loss(self, batch):
        x, y = (t.to(self.device, non_blocking=True) for t in batch)
        return self.criterion(self.model(x), y)

    def train_epoch(self, loader):
        self.model.train()
        for batch in loader:
            loss = self._loss(batch)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    def validate(self, loader):
        self.model.eval()
        total = 0.0
        for batch in loader:
            total = total + self._loss(batch)
        return (total / len(loader)).item()

    def fit(self, train, valid, epochs):
        for epoch in range(epochs):
            self.history.append((self.train_epoch(train), self.validate(valid)))
            log.info("epoch %d train %.3f valid %.3f", epoch, *self.history[-1])


if "--fixed" in sys.argv:
    Fitter.validate = torch.no_grad()(Fitter.validate)


def routes(count, seed):
    g = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(count, 64, 9, generator=g), torch.rand(count, generator=g) * 45)


if __name__ == "__main__":
    fitter = Fitter(EtaModel(), nn.SmoothL1Loss(), lr=2e-4)
    fitter.fit(DataLoader(routes(1024, 0), 128, shuffle=True), DataLoader(routes(1792, 1), 128), epochs=2)
