"""Looks for faulty screws: a convolutional autoencoder learns good ones, then the test makes a map of errors for each photo and picks the worst."""
import sys
from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    size: int = 256
    latent: int = 64
    batch: int = 16
    train_batches: int = 6
    test_batches: int = 20
    keep_on_gpu: bool = "--fixed" not in sys.argv


def photos(cfg, n):
    photo = torch.rand(cfg.batch, 3, cfg.size, cfg.size)
    for _ in range(n):
        yield photo


class Autoencoder(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        down, up, widths = [], [], (3, 32, 64, 128, 128)
        for a, b in zip(widths, widths[1:]):
            down += [nn.Conv2d(a, b, 4, 2, 1), nn.LeakyReLU(0.2)]
        for a, b in zip(reversed(widths), list(reversed(widths))[1:]):
            up += [nn.ConvTranspose2d(a, b, 4, 2, 1), nn.LeakyReLU(0.2) if b != 3 else nn.Sigmoid()]
        self.encoder = nn.Sequential(*down, nn.Conv2d(128, cfg.latent, 1))
        self.decoder = nn.Sequential(nn.Conv2d(cfg.latent, 128, 1), *up)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def train(cfg, model, device):
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    model.train()
    for step, x in enumerate(photos(cfg, cfg.train_batches)):
        x = x.to(device)
        loss = nn.functional.mse_loss(model(x), x)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("train", step, loss.item())


@torch.inference_mode()
def test(cfg, model, device):
    model.eval()
    originals, reconstructions, errors = [], [], []
    for x in photos(cfg, cfg.test_batches):
        x = x.to(device)
        y = model(x)
        e = (x - y).abs().mean(1, keepdim=True)
        if not cfg.keep_on_gpu:
            x, y, e = x.cpu(), y.cpu(), e.cpu()
        originals.append(x)
        reconstructions.append(y)
        errors.append(e)
    score = torch.cat([e.flatten(1).amax(1).cpu() for e in errors])
    worst = score.topk(5).indices.tolist()
    sheets = []
    for index in worst:
        b, k = divmod(index, cfg.batch)
        sheets.append(torch.cat([originals[b][k], reconstructions[b][k], errors[b][k].expand(3, -1, -1)], 2).cpu())
    return worst, torch.stack(sheets)


if __name__ == "__main__":
    cfg = Config()
    device = torch.device("cuda")
    model = Autoencoder(cfg).to(device)
    train(cfg, model, device)
    worst, sheets = test(cfg, model, device)
    print("worst:", worst, tuple(sheets.shape))
