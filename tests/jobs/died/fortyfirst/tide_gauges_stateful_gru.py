"""Water level at a harbour from tide gauges along the coast: a stateful GRU that reads a winter in windows of a day."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
GAUGES, STEPS_A_DAY, DAYS, COASTS = 14, 144, 24, 32


class Harbour(nn.Module):
    """Keeps its state from window to window."""

    def __init__(self, hidden=384):
        super().__init__()
        self.enter = nn.Sequential(nn.Linear(GAUGES, hidden), nn.Tanh())
        self.memory = nn.GRU(hidden, hidden, num_layers=2, batch_first=True)
        self.level = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, 1))
        self.state = None

    def forget(self):
        self.state = None

    def forward(self, window):
        out, state = self.memory(self.enter(window), self.state)
        self.state = state.detach() if FIXED else state
        return self.level(out)[..., 0]


def winter(year):
    """Readings of all gauges, and the level at the harbour, for each window."""
    g = torch.Generator().manual_seed(year)
    for _ in range(DAYS):
        yield torch.randn(COASTS, STEPS_A_DAY, GAUGES, generator=g).cuda(), torch.randn(COASTS, STEPS_A_DAY, generator=g).cuda()


def train_winter(model, optimizer, year):
    model.forget()
    optimizer.zero_grad()
    total = 0.0
    for window, level in winter(year):
        loss = nn.functional.mse_loss(model(window), level) / DAYS
        # without retain_graph: "Trying to backward through the graph a second time"
        loss.backward(retain_graph=not FIXED)
        total += loss.item()
    nn.utils.clip_grad_value_(model.parameters(), 0.5)
    optimizer.step()
    return total


def main():
    torch.manual_seed(1953)
    model = Harbour().cuda()
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for year in (1995, 1996):
        print("winter", year, "loss", train_winter(model, optimizer, year))


if __name__ == "__main__":
    main()
