"""Learns the pressure of a water main with a dilated convolutional net, and follows the error on one probe district while it trains."""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Dilated(nn.Module):
    """A residual block of two dilated convolutions."""

    def __init__(self, width, dilation):
        super().__init__()
        self.one = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.two = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.norm = nn.GroupNorm(8, width)

    def forward(self, x):
        return x + F.gelu(self.two(F.gelu(self.norm(self.one(x)))))


class PressureNet(nn.Module):
    """Pressure at each sensor in the next minute, for each minute of the window."""

    def __init__(self, sensors, width, depth):
        super().__init__()
        self.enter = nn.Conv1d(sensors, width, 1)
        self.blocks = nn.Sequential(*[Dilated(width, 2 ** (i % 6)) for i in range(depth)])
        self.leave = nn.Conv1d(width, sensors, 1)

    def forward(self, x):
        return self.leave(self.blocks(self.enter(x)))


class Runner:
    """Trains, and notes the error on the probe district at each step."""

    def __init__(self, args):
        self.args = args
        self.generator = torch.Generator().manual_seed(args.seed)
        self.net = PressureNet(args.sensors, args.width, args.depth).cuda()
        self.optimizer = torch.optim.NAdam(self.net.parameters(), lr=args.lr)
        self.probe = self.windows(args.batch // 2)
        self.probe_errors = []

    def windows(self, n):
        series = torch.randn(n, self.args.sensors, self.args.minutes + 1, generator=self.generator).cuda()
        return series[..., :-1], series[..., 1:]

    def note_probe(self):
        x, y = self.probe
        if self.args.fixed:
            with torch.no_grad():
                self.probe_errors.append(F.l1_loss(self.net(x), y))
        else:
            self.probe_errors.append(F.l1_loss(self.net(x), y))

    def step(self):
        x, y = self.windows(self.args.batch)
        loss = F.smooth_l1_loss(self.net(x), y)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self):
        for i in range(self.args.steps):
            loss = self.step()
            self.note_probe()
            if i % 4 == 3:
                print(f"step {i + 1}: loss {loss:.4f}, probe {torch.stack(self.probe_errors[-4:]).mean().item():.4f}")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sensors", type=int, default=24)
    parser.add_argument("--minutes", type=int, default=1440)
    parser.add_argument("--width", type=int, default=128)
    parser.add_argument("--depth", type=int, default=12)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--steps", type=int, default=16)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--fixed", action="store_true", help="the probe is scored without gradients")
    Runner(parser.parse_args()).run()


if __name__ == "__main__":
    main()
