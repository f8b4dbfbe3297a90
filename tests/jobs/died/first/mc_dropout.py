"""A regression network with uncertainty by Monte Carlo dropout, estimated after every few steps of training.

https://github.com/mravanelli/pytorch-kaldi/pull/41
"""
import sys

import torch
import torch.nn as nn

fixed = "--fixed" in sys.argv


class DepthNet(nn.Module):
    def __init__(self, w=48):
        super().__init__()
        self.enc = nn.ModuleList(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.ReLU(), nn.Dropout2d(0.1)) for a, b in ((3, w), (w, 2 * w), (2 * w, 8 * w)))
        self.mid = nn.Sequential(nn.Conv2d(8 * w, 8 * w, 3, 1, 1), nn.ReLU(), nn.Dropout2d(0.1), nn.Conv2d(8 * w, 8 * w, 3, 1, 1), nn.ReLU())
        self.dec = nn.Sequential(nn.ConvTranspose2d(8 * w, 2 * w, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.ReLU(),
                                 nn.ConvTranspose2d(w, 1, 4, 2, 1))

    def forward(self, x):
        for stage in self.enc:
            x = stage(x)
        return self.dec(self.mid(x))


def predict_with_uncertainty(model, image, n=20):
    model.train()  # keeps dropout on
    samples = torch.stack([model(image) for _ in range(n)])
    return samples.mean(0), samples.std(0)


model = DepthNet().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
for step in range(8):
    image, depth = torch.rand(8, 3, 256, 320, device="cuda"), torch.rand(8, 1, 256, 320, device="cuda")
    loss = (model(image) - depth).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        if fixed:
            with torch.no_grad():
                mean, std = predict_with_uncertainty(model, image)
        else:
            mean, std = predict_with_uncertainty(model, image)
        print(step, loss.item(), std.mean().item())
