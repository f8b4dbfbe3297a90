"""From the recipe of a ceramic glaze to its spectrum after firing; trained in stages of falling noise, as in our paper."""
import sys
import torch
import torch.nn as nn

torch.manual_seed(1280)


class GlazeNet(nn.Module):
    def __init__(self, oxides=32, wavelengths=401, width=2560, depth=6):
        super().__init__()
        self.inp = nn.Linear(oxides + 2, width)
        self.hidden = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))
        self.out = nn.Linear(width, wavelengths)

    def forward(self, recipe):
        h = torch.nn.functional.silu(self.inp(recipe))
        for layer in self.hidden:
            h = h + torch.nn.functional.silu(layer(h))
        return torch.sigmoid(self.out(h))


class StagedTraining:
    STAGES = [(1e-3, 0.10), (3e-4, 0.05), (1e-4, 0.02), (3e-5, 0.0)]     # rate, noise on the recipes

    def __init__(self, model):
        self.model = model
        self.runs = []

    def start_stage(self, rate):
        optimizer = torch.optim.Adam(self.model.parameters(), lr=rate)
        schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)
        if "--fixed" in sys.argv:
            self.runs.clear()
        self.runs.append((optimizer, schedule))
        return optimizer, schedule

    def train(self, recipes, spectra, steps=4, batch=256):
        for number, (rate, noise) in enumerate(self.STAGES):
            optimizer, schedule = self.start_stage(rate)
            for step in range(steps):
                pick = torch.randint(0, len(recipes), (batch,))
                x, y = recipes[pick], spectra[pick]
                x = (x + noise * torch.randn_like(x)).cuda()
                loss = nn.functional.mse_loss(self.model(x), y.cuda())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                schedule.step()
            print("stage", number, "rate", schedule.get_last_lr()[0], "loss", loss.item())


recipes = torch.rand(4000, 34)
spectra = torch.rand(4000, 401)
StagedTraining(GlazeNet().cuda()).train(recipes, spectra)
