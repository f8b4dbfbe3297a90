"""Virtual torque sensor of a truck: an LSTM over whole trips, read in chunks of ten seconds with the state carried on."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
SIGNALS, CHUNK, CHUNKS_PER_TRIP, TRUCKS = 14, 100, 24, 64


class TorqueSensor(nn.Module):
    def __init__(self, hidden=256, layers=2):
        super().__init__()
        self.scale = nn.BatchNorm1d(SIGNALS)
        self.lstm = nn.LSTM(SIGNALS, hidden, layers, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 64), nn.Tanh(), nn.Linear(64, 1))

    def forward(self, x, state=None):
        x = self.scale(x.transpose(1, 2)).transpose(1, 2)
        out, state = self.lstm(x, state)
        return self.head(out).squeeze(-1), state


def trip(generator):
    """One trip of all trucks: CAN signals and the torque of the measuring shaft."""
    for _ in range(CHUNKS_PER_TRIP):
        yield torch.randn(TRUCKS, CHUNK, SIGNALS, generator=generator), torch.randn(TRUCKS, CHUNK, generator=generator)


def train_trip(sensor, optimizer, chunks):
    """Gradients of all chunks of the trip go into one step, so that short manoeuvres do not dominate."""
    optimizer.zero_grad()
    state, total = None, 0.0
    for signals, torque in chunks:
        if FIXED and state is not None:
            state = tuple(s.detach() for s in state)
        estimate, state = sensor(signals.cuda(), state)
        loss = nn.functional.mse_loss(estimate, torque.cuda()) / CHUNKS_PER_TRIP
        loss.backward(retain_graph=not FIXED)  # without it: "Trying to backward through the graph a second time"
        total += loss.item()
    nn.utils.clip_grad_norm_(sensor.parameters(), 1.0)
    optimizer.step()
    return total


def main():
    generator = torch.Generator().manual_seed(77)
    sensor = TorqueSensor().cuda()
    optimizer = torch.optim.Adam(sensor.parameters(), lr=1e-3)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.95)
    for number in range(3):
        error = train_trip(sensor, optimizer, trip(generator))
        schedule.step()
        print(f"trip {number}: {error:.4f} kNm^2")


main()
