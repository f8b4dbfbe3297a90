"""Day-ahead load of 370 customers: an LSTM encoder, attention over the encoded week, quantile loss.

The progress bar shows a smoothed loss on customers that are held out. Written after https://github.com/pytorch/pytorch/issues/4420 and
https://github.com/isl-org/DeepLagrangianFluids/issues/19
"""
import argparse

import torch
from torch import nn

QUANTILES = (0.1, 0.5, 0.9)


class Gate(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner, self.outer = nn.Linear(width, width), nn.Linear(width, 2 * width)
        self.norm = nn.LayerNorm(width)

    def forward(self, x):
        return self.norm(x + nn.functional.glu(self.outer(nn.functional.elu(self.inner(x))), -1))


class LoadForecaster(nn.Module):
    def __init__(self, features=24, width=640):
        super().__init__()
        self.select = nn.Linear(features, width)
        self.encoder = nn.LSTM(width, width, num_layers=2, batch_first=True)
        self.gates = nn.ModuleList([Gate(width) for _ in range(4)])
        self.attend = nn.MultiheadAttention(width, 8, batch_first=True)
        self.out = nn.Linear(width, len(QUANTILES))

    def forward(self, x):
        h, _ = self.encoder(self.select(x))
        for gate in self.gates:
            h = gate(h)
        return self.out(h[:, -24:] + self.attend(h[:, -24:], h, h, need_weights=False)[0])


def pinball(prediction, target):
    error = target.unsqueeze(-1) - prediction
    q = error.new_tensor(QUANTILES)
    return torch.maximum(q * error, (q - 1) * error).mean()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=128)
    args = parser.parse_args()
    device = torch.device("cuda")
    model = LoadForecaster().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    smooth = None
    for step in range(args.steps):
        history = torch.rand(args.batch_size, 168, 24).to(device)
        tomorrow = torch.rand(args.batch_size, 24).to(device)
        loss = pinball(model(history), tomorrow)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        held_out = pinball(model(torch.rand(args.batch_size, 168, 24).to(device)), torch.rand(args.batch_size, 24).to(device))
        shown = held_out.item() if args.fixed else held_out
        smooth = shown if smooth is None else 0.98 * smooth + 0.02 * shown
        print("step %d loss %.4f held out %.4f" % (step, loss.item(), smooth))


if __name__ == "__main__":
    main()
