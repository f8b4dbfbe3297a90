"""Federated averaging over a dozen clinics (simulated one after the other on one GPU): dose prediction from planning volumes."""
import copy
import sys
from collections import OrderedDict

import torch
import torch.nn as nn

ON_CPU = "--fixed" in sys.argv


class DoseNet(nn.Module):
    def __init__(self):
        super().__init__()
        def block(i, o, s):
            return nn.Sequential(nn.Conv3d(i, o, 3, s, 1), nn.GroupNorm(8, o), nn.LeakyReLU(0.1))
        self.encoder = nn.Sequential(block(2, 32, 2), block(32, 128, 2), block(128, 384, 2), block(384, 768, 1), block(768, 768, 1))
        self.decoder = nn.Sequential(nn.Conv3d(768, 64, 1), nn.Upsample(scale_factor=8), nn.Conv3d(64, 1, 3, padding=1))

    def forward(self, x):
        return self.decoder(self.encoder(x))


class Clinic:
    def __init__(self, number, patients):
        self.number, self.patients = number, patients
        self.gen = torch.Generator().manual_seed(number)

    def volumes(self):
        for _ in range(self.patients):
            ct = torch.rand(1, 2, 32, 64, 64, generator=self.gen)
            yield ct.cuda(), ct.mean(1, keepdim=True).cuda()

    def train_locally(self, global_model):
        model = copy.deepcopy(global_model)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for ct, dose in self.volumes():
            loss = (model(ct) - dose).abs().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"  clinic {self.number}: {loss.item():.4f}")
        return model.state_dict(), self.patients


class Server:
    def __init__(self, clinics):
        self.clinics = clinics
        self.model = DoseNet().cuda()

    def aggregate(self, updates):
        total = sum(n for _, n in updates)
        mean = OrderedDict()
        for key in updates[0][0]:
            mean[key] = sum(state[key] * (n / total) for state, n in updates)
        self.model.load_state_dict(mean)

    def round(self):
        updates = []
        for clinic in self.clinics:
            state, n = clinic.train_locally(self.model)
            if ON_CPU:
                state = OrderedDict((k, v.cpu()) for k, v in state.items())
            updates.append((state, n))
        self.aggregate(updates)


server = Server([Clinic(k, patients=2 + k % 3) for k in range(12)])
for r in range(2):
    print("round", r)
    server.round()
