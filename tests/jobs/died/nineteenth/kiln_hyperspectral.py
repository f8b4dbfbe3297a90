"""Unmixing of kiln wall spectra into abundances of minerals; quality is the spectral angle, measured by torchmetrics."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.regression import CosineSimilarity, MeanSquaredError

BANDS, MINERALS = 240, 11


class Unmixer(nn.Module):
    """Encoder gives abundances that sum to one, the decoder's rows are the spectra of the minerals."""

    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(BANDS, 192), nn.LeakyReLU(0.1), nn.Linear(192, 64), nn.LeakyReLU(0.1), nn.Linear(64, MINERALS))
        self.endmembers = nn.Linear(MINERALS, BANDS, bias=False)

    def forward(self, spectrum):
        abundance = self.encoder(spectrum).softmax(-1)
        return self.endmembers(abundance), abundance


class Experiment:
    def __init__(self, device="cuda"):
        self.device = device
        self.model = Unmixer().to(device)
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=1e-3)
        options = {"compute_on_cpu": True} if "--fixed" in sys.argv else {}
        self.metrics = MetricCollection({
            "angle": CosineSimilarity(reduction="mean", **options),
            "mse": MeanSquaredError(),
        }, compute_groups=False).to(device)
        self.loss = MeanMetric().to(device)

    def fit(self, loader):
        self.model.train()
        for (spectrum,) in loader:
            spectrum = spectrum.to(self.device, non_blocking=True)
            rebuilt, abundance = self.model(spectrum)
            loss = nn.functional.mse_loss(rebuilt, spectrum) + 1e-3 * abundance.sqrt().sum(-1).mean()
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.loss.update(loss.detach())
        print("loss", self.loss.compute().item())
        self.loss.reset()

    @torch.inference_mode()
    def test(self, loader):
        self.model.eval()
        for (spectrum,) in loader:
            spectrum = spectrum.to(self.device)
            rebuilt, _ = self.model(spectrum)
            self.metrics.update(rebuilt, spectrum)
        print({name: value.item() for name, value in self.metrics.compute().items()})
        self.metrics.reset()


def wall(pixels):
    base = torch.linspace(0.1, 0.9, BANDS)
    return TensorDataset((base + torch.linspace(0, 0.1, pixels)[:, None]))


experiment = Experiment()
training = DataLoader(wall(16384), batch_size=2048, shuffle=True)
scan = DataLoader(wall(480 * 1024), batch_size=None, sampler=torch.utils.data.BatchSampler(range(480 * 1024), 12288, False))
for epoch in range(2):
    experiment.fit(training)
    if epoch == 1:
        experiment.test(scan)
