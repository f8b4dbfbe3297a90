"""A neural ODE for the dynamics of a series-elastic actuator, fitted to logs of the test bench (written by the controller as doubles)."""
import sys

import numpy as np
import torch
import torch.nn as nn

DTYPE = np.float32 if "--fixed" in sys.argv else np.float64


class BenchLogs:
    """Trajectories of position, velocity, spring torque and motor current, with the commands."""

    def __init__(self, trajectories=2048, ticks=20, seed=17):
        rng = np.random.default_rng(seed)
        self.states = rng.standard_normal((trajectories, ticks + 1, 4)).cumsum(1).astype(DTYPE) * DTYPE(0.01)
        self.commands = rng.standard_normal((trajectories, ticks, 1)).astype(DTYPE)

    def batches(self, count):
        for _ in range(count):
            yield torch.from_numpy(self.states), torch.from_numpy(self.commands)


class Dynamics(nn.Module):
    def __init__(self, hidden=256):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, hidden), nn.Tanh(), nn.Linear(hidden, hidden), nn.Tanh(),
                                 nn.Linear(hidden, hidden), nn.Tanh(), nn.Linear(hidden, 4))

    def forward(self, state, command):
        return self.net(torch.cat([state, command], -1))


def rk4(f, state, command, dt):
    k1 = f(state, command)
    k2 = f(state + dt / 2 * k1, command)
    k3 = f(state + dt / 2 * k2, command)
    k4 = f(state + dt * k3, command)
    return state + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)


def match_dtype(model, logs):
    """The weights must have the type of the logs, or the first linear layer complains."""
    return model.to(torch.from_numpy(logs.states[:1]).dtype)


class BenchFit:
    def __init__(self, logs, dt=0.002):
        self.logs, self.dt = logs, dt
        self.model = match_dtype(Dynamics(), logs).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-3)

    def step(self, states, commands):
        state, loss = states[:, 0], 0.0
        for tick in range(commands.shape[1]):
            state = rk4(self.model, state, commands[:, tick], self.dt)
            loss = loss + (state - states[:, tick + 1]).pow(2).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    def run(self, steps=5):
        for number, (states, commands) in enumerate(self.logs.batches(steps)):
            print("step", number, "loss", self.step(states.to("cuda"), commands.to("cuda")))


BenchFit(BenchLogs()).run()
