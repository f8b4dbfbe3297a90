"""Learns the torque of conveyor drives from recordings of a shift, chunk by chunk, one optimizer step per recording."""
import sys

import torch
from torch import nn


class TorqueGRU(nn.Module):
    def __init__(self, sensors=10, hidden=192):
        super().__init__()
        self.gru = nn.GRU(sensors, hidden, num_layers=2, batch_first=True)
        self.readout = nn.Sequential(nn.Linear(hidden, hidden), nn.SiLU(), nn.Linear(hidden, 1))

    def forward(self, window, state=None):
        out, state = self.gru(window, state)
        return self.readout(out).squeeze(-1), state


def shift_recordings(count, drives=48, seconds=2400):
    gen = torch.Generator().manual_seed(6)
    for _ in range(count):
        yield torch.randn(drives, seconds, 10, generator=gen), torch.randn(drives, seconds, generator=gen)


class ShiftLearner:
    chunk = 150

    def __init__(self, carry_graph):
        self.carry_graph = carry_graph
        self.net = TorqueGRU().cuda()
        self.optimizer = torch.optim.RMSprop(self.net.parameters(), lr=5e-4)

    def _next_state(self, state):
        return state if self.carry_graph else state.detach()

    def learn(self, sensors, torque):
        self.net.train()
        self.optimizer.zero_grad()
        state, total, chunks = None, 0.0, sensors.shape[1] // self.chunk
        for x, y in zip(sensors.split(self.chunk, 1), torque.split(self.chunk, 1)):
            guess, state = self.net(x.cuda(), state)
            loss = nn.functional.mse_loss(guess, y.cuda()) / chunks
            loss.backward(retain_graph=self.carry_graph)
            state = self._next_state(state)
            total += loss.item()
        nn.utils.clip_grad_norm_(self.net.parameters(), 1.0)
        self.optimizer.step()
        return total


def main():
    learner = ShiftLearner(carry_graph="--fixed" not in sys.argv)
    for number, (sensors, torque) in enumerate(shift_recordings(3)):
        print(f"shift {number}: squared error {learner.learn(sensors, torque):.4f}")


if __name__ == "__main__":
    main()
