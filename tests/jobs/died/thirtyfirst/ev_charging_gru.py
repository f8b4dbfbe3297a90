"""Load of a network of EV charging stations, one day as 24 chunks of an hour (60 readings); weights are updated once per day."""
import argparse

import torch
from torch import nn


class ChargingModel(nn.Module):
    def __init__(self, n_features=12, hidden=256, layers=2):
        super().__init__()
        self.rnn = nn.GRU(n_features, hidden, num_layers=layers, batch_first=True)
        self.proj = nn.Sequential(nn.Linear(hidden, 128), nn.SiLU(), nn.Linear(128, 1))

    def forward(self, x, state=None):
        out, state = self.rnn(x, state)
        return self.proj(out).squeeze(-1), state


class DayTrainer:
    def __init__(self, args):
        self.args = args
        self.model = ChargingModel().cuda()
        self.optim = torch.optim.AdamW(self.model.parameters(), lr=args.lr)
        self.gen = torch.Generator().manual_seed(args.seed)

    def day(self):
        data = torch.rand(self.args.stations, 24 * 60, 12, generator=self.gen)
        return data, data[..., 0].roll(-1, 1)

    def train_day(self):
        x, y = self.day()
        state, total = None, 0.0
        for cx, cy in zip(x.chunk(24, 1), y.chunk(24, 1)):
            pred, state = self.model(cx.cuda(), state)
            loss = nn.functional.huber_loss(pred, cy.cuda()) / 24
            if self.args.fixed:
                loss.backward()
                state = state.detach()
            else:
                loss.backward(retain_graph=True)  # otherwise: "Trying to backward through the graph a second time"
            total += loss.item()
        nn.utils.clip_grad_norm_(self.model.parameters(), 0.5)
        self.optim.step()
        self.optim.zero_grad()
        return total


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--stations", type=int, default=192)
    p.add_argument("--days", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--fixed", action="store_true")
    trainer = DayTrainer(p.parse_args())
    for d in range(trainer.args.days):
        print("day", d, "loss", trainer.train_day())
