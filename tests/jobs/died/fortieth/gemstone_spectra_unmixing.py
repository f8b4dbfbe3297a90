import sys
import torch, torch.nn as nn, torch.nn.functional as F
from torchmetrics import MetricCollection, MeanSquaredError
from torchmetrics.regression import CosineSimilarity

# Unmix hyperspectral scans of cut gems into 9 minerals and put the spectra together again.
BANDS, MINERALS, SIDE = 64, 9, 128
fixed = "--fixed" in sys.argv
dev = "cuda:0"

class Unmixer(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(BANDS, 48, 1), nn.GELU(), nn.Conv2d(48, 32, 3, padding=1), nn.GELU(), nn.Conv2d(32, MINERALS, 1))
        self.endmembers = nn.Parameter(torch.rand(MINERALS, BANDS))

    def forward(self, cube):
        abundance = self.enc(cube).softmax(1)
        return torch.einsum("bmhw,mc->bchw", abundance, self.endmembers), abundance

def cubes(n, batch, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield torch.rand(batch, BANDS, SIDE, SIDE, generator=g)

def pixels(c):
    return c.permute(0, 2, 3, 1).reshape(-1, BANDS)

net = Unmixer().to(dev)
opt = torch.optim.Adam(net.parameters(), 1e-3)
angle = CosineSimilarity(reduction="mean", compute_on_cpu=fixed)
scores = MetricCollection({"mse": MeanSquaredError(), "sam": angle}).to(dev)

for epoch in range(2):
    net.train()
    for cube in cubes(6, 4, epoch):
        cube = cube.to(dev)
        again, ab = net(cube)
        loss = F.mse_loss(again, cube) + 1e-3 * ab.clamp_min(1e-6).sqrt().mean()
        opt.zero_grad(); loss.backward(); opt.step()

    if epoch == 1:
        net.eval()
        with torch.inference_mode():
            for cube in cubes(20, 8, 99):
                cube = cube.to(dev)
                again, _ = net(cube)
                scores.update(pixels(again), pixels(cube))
        print({k: float(v) for k, v in scores.compute().items()})
        scores.reset()
