"""Recognises gestures from an event camera with a spiking network and surrogate gradients; firing rates are printed after each epoch."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
TIME, BATCH, CLASSES = 12, 16, 11


class Spike(torch.autograd.Function):
    """A step forward, the derivative of a fast sigmoid backward."""

    @staticmethod
    def forward(ctx, potential):
        ctx.save_for_backward(potential)
        return (potential > 0).to(potential.dtype)

    @staticmethod
    def backward(ctx, gradient):
        (potential,) = ctx.saved_tensors
        return gradient / (1 + 10 * potential.abs()) ** 2


class LIF(nn.Module):
    """Leaky integrate-and-fire neurons."""

    def __init__(self, decay=0.9, threshold=1.0):
        super().__init__()
        self.decay, self.threshold = decay, threshold
        self.fired = []
        self.reset()

    def reset(self):
        self.potential = 0.0

    def forward(self, current):
        self.potential = self.decay * self.potential + current
        spikes = Spike.apply(self.potential - self.threshold)
        self.potential = self.potential - spikes * self.threshold
        self.fired.append(spikes.mean().item() if FIXED else spikes)
        return spikes

    def rate(self):
        rates = self.fired if FIXED else [s.mean().item() for s in self.fired]
        return sum(rates) / len(rates)


class SpikingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv2d(2, 32, 3, 2, 1), nn.BatchNorm2d(32), LIF(), nn.Conv2d(32, 64, 3, 2, 1), nn.BatchNorm2d(64), LIF(),
                                 nn.Conv2d(64, 64, 3, 2, 1), nn.BatchNorm2d(64), LIF(), nn.Flatten(), nn.Linear(64 * 64, CLASSES))

    def neurons(self):
        return [m for m in self.modules() if isinstance(m, LIF)]

    def forward(self, events):
        for lif in self.neurons():
            lif.reset()
        return sum(self.net(events[:, t]) for t in range(events.shape[1])) / events.shape[1]


def train():
    model = SpikingNet().cuda()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for epoch in range(2):
        for lif in model.neurons():
            lif.fired = []
        for _ in range(25):
            events = torch.zeros(BATCH, TIME, 2, 64, 64)
            gestures = torch.randint(CLASSES, (BATCH,))
            loss = F.cross_entropy(model(events.cuda()), gestures.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item(), "rates", ["%.3f" % lif.rate() for lif in model.neurons()])


train()
