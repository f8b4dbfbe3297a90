"""Continues the training of a transformer that forecasts wave heights at buoys. Yesterday's job hit the time limit of the cluster."""
import os
import sys
import tempfile

import torch
import torch.nn as nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

MAP = "cpu" if "--fixed" in sys.argv else "cuda"
BUOYS, WINDOW, AHEAD = 40, 168, 24


class WaveTransformer(nn.Module):
    def __init__(self, d=640, layers=8):
        super().__init__()
        self.inp = nn.Linear(BUOYS * 3, d)        # height, period and direction of each buoy
        self.pos = nn.Parameter(torch.zeros(WINDOW, d))
        layer = nn.TransformerEncoderLayer(d, 8, 4 * d, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.out = nn.Linear(d, BUOYS * AHEAD)

    def forward(self, x):
        return self.out(self.encoder(self.inp(x) + self.pos)[:, -1]).view(-1, AHEAD, BUOYS)


def yesterdays_checkpoint(path):
    """What the job of yesterday left on the disk."""
    model = WaveTransformer()
    state = model.state_dict()
    moments = {i: {"step": torch.tensor(4000.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
               for i, p in enumerate(model.parameters())}
    group = torch.optim.AdamW(model.parameters(), lr=2e-4).state_dict()["param_groups"]
    torch.save({"epoch": 40, "model": state, "best": {k: v.clone() for k, v in state.items()}, "optimizer": {"state": moments, "param_groups": group},
                "ema": AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999)).state_dict(), "best_rmse": 0.231}, path)


def hours(batches, size=2):
    g = torch.Generator().manual_seed(44)
    for _ in range(batches):
        yield torch.randn(size, WINDOW, BUOYS * 3, generator=g), torch.randn(size, AHEAD, BUOYS, generator=g)


def main(path):
    model = WaveTransformer().cuda()
    ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)

    checkpoint = torch.load(path, map_location=MAP)
    model.load_state_dict(checkpoint["model"])
    ema.load_state_dict(checkpoint["ema"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    best, start = checkpoint["best_rmse"], checkpoint["epoch"] + 1

    for epoch in range(start, start + 2):
        model.train()
        for x, y in hours(4):
            loss = nn.functional.mse_loss(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update_parameters(model)
        ema.eval()
        with torch.no_grad():
            rmse = sum(nn.functional.mse_loss(ema(x.cuda()), y.cuda()).item() for x, y in hours(2)) ** 0.5
        print(f"epoch {epoch} train {loss.item():.3f} rmse {rmse:.3f} (best so far {best:.3f})")


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "last.pt")
    yesterdays_checkpoint(file)
    main(file)
