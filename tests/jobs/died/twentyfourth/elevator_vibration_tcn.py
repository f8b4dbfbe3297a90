"""Predictive maintenance of lifts: a TCN on the acceleration of the cabin tells how worn the guide shoes are."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


class Callback:
    def on_epoch_begin(self, learner): ...
    def on_batch_end(self, learner): ...
    def on_epoch_end(self, learner): ...


class PrintLoss(Callback):
    def on_epoch_end(self, learner):
        print("epoch", learner.epoch, "training loss", learner.loss.item())


class ReferenceLift(Callback):
    """Follows the loss on the lift of the test tower, whose wear is known exactly, after every batch."""

    def __init__(self, signal, wear):
        self.signal, self.wear, self.curve = signal.cuda(), wear.cuda(), []

    def on_batch_end(self, learner):
        deviation = learner.criterion(learner.model(self.signal), self.wear)
        if FIXED:
            deviation = deviation.item()
        self.curve.append(deviation)

    def on_epoch_end(self, learner):
        recent = self.curve[-4:]
        print("reference lift", float(sum(recent)) / len(recent), "of", len(self.curve), "points")


class Residual(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.a = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)
        self.b = nn.Conv1d(channels, channels, 3, padding=dilation, dilation=dilation)

    def forward(self, x):
        return torch.relu(x + self.b(torch.relu(self.a(x))))


def make_model(channels=64, depth=7):
    return nn.Sequential(nn.Conv1d(3, channels, 7, padding=3), *[Residual(channels, 2 ** i) for i in range(depth)],
                         nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(channels, 1))


class Learner:
    def __init__(self, model, criterion, callbacks=()):
        self.model, self.criterion, self.callbacks = model.cuda(), criterion, list(callbacks)
        self.optimizer = torch.optim.RMSprop(self.model.parameters(), lr=1e-4)

    def _call(self, event):
        for callback in self.callbacks:
            getattr(callback, event)(self)

    def fit(self, epochs, batches):
        for self.epoch in range(epochs):
            self._call("on_epoch_begin")
            for signal, wear in batches():
                self.loss = self.criterion(self.model(signal.cuda()), wear.cuda())
                self.optimizer.zero_grad()
                self.loss.backward()
                self.optimizer.step()
                self._call("on_batch_end")
            self._call("on_epoch_end")


def rides(size=10, count=6, length=4096):
    generator = torch.Generator().manual_seed(8)
    for _ in range(count):
        yield torch.randn(size, 3, length, generator=generator), torch.rand(size, 1, generator=generator)


reference = next(rides(size=8))
Learner(make_model(), nn.MSELoss(), [PrintLoss(), ReferenceLift(*reference)]).fit(3, rides)
