"""Remaining life of rolling-mill bearings from vibration. Cosine cycles; the models at the end of the cycles vote (snapshot ensembles)."""
import copy
import math
import sys

import torch
from torch import nn

CYCLES, STEPS_PER_CYCLE, PEAK_LR = 9, 4, 0.05


class MillNet(nn.Module):
    def __init__(self, channels=6, width=640, layers=7):
        super().__init__()
        self.frames = nn.Conv1d(channels, width, 64, stride=32)
        layer = dict(d_model=width, nhead=8, dim_feedforward=4 * width, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(**layer), layers, enable_nested_tensor=False)
        self.hours = nn.Linear(width, 1)

    def forward(self, signal):
        return self.hours(self.encoder(self.frames(signal).transpose(1, 2)).mean(1)).squeeze(-1)


class SnapshotEnsemble:
    def __init__(self, model, on_host):
        self.model, self.on_host, self.members = model, on_host, []

    def take(self):
        state = self.model.state_dict()
        if self.on_host:
            self.members.append({name: value.cpu() for name, value in state.items()})
        else:
            self.members.append(copy.deepcopy(state))

    @torch.no_grad()
    def vote(self, signal):
        own = {name: value.cpu() for name, value in self.model.state_dict().items()}
        self.model.eval()
        votes = []
        for member in self.members:
            self.model.load_state_dict(member)
            votes.append(self.model(signal))
        self.model.load_state_dict(own)
        self.model.train()
        return torch.stack(votes).mean(0)


def rate(step):
    return 0.5 * (math.cos(math.pi * (step % STEPS_PER_CYCLE) / STEPS_PER_CYCLE) + 1)


def main():
    model = MillNet().cuda()
    sgd = torch.optim.SGD(model.parameters(), lr=PEAK_LR, momentum=0.9, nesterov=True)
    schedule = torch.optim.lr_scheduler.LambdaLR(sgd, rate)
    ensemble = SnapshotEnsemble(model, "--fixed" in sys.argv)
    for cycle in range(CYCLES):
        for _ in range(STEPS_PER_CYCLE):
            signal, hours = torch.rand(8, 6, 2048).cuda(), torch.rand(8).mul(900).cuda()
            loss = nn.functional.huber_loss(model(signal), hours, delta=50.0)
            sgd.zero_grad()
            loss.backward()
            sgd.step()
            schedule.step()
        ensemble.take()
        print("cycle", cycle, "loss", loss.item())
    print("vote", ensemble.vote(torch.rand(8, 6, 2048).cuda()).shape)


main()
