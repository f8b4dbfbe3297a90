"""Goes on with the training of a Siamese tracker from the checkpoint of yesterday's run."""
import os
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
FOLDER = tempfile.mkdtemp()


class Backbone(nn.Module):
    def __init__(self, widths=(64, 128, 512, 1024, 1536)):
        super().__init__()
        layers, inner = [], 3
        for k, width in enumerate(widths):
            layers += [nn.Conv2d(inner, width, 3, 2 if k < 3 else 1, 1), nn.BatchNorm2d(width), nn.ReLU()]
            inner = width
        self.net = nn.Sequential(*layers)
        self.neck = nn.Sequential(nn.Conv2d(inner, 1024, 3, padding=1), nn.ReLU(), nn.Conv2d(1024, 256, 1))

    def forward(self, x):
        return self.neck(self.net(x))


class Tracker(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = Backbone()
        self.scale = nn.Parameter(torch.tensor(0.1))

    def forward(self, template, search):
        kernel, area = self.backbone(template), self.backbone(search)
        b, c, h, w = area.shape
        response = F.conv2d(area.view(1, b * c, h, w), kernel, groups=b)
        return self.scale * response.view(b, *response.shape[-2:])


def yesterday(path):
    """What the earlier run has left: the model, the optimizer and the moving average, as it was saved there."""
    model = Tracker()
    states = {k: {"momentum_buffer": torch.zeros_like(p)} for k, p in enumerate(model.parameters())}
    groups = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9).state_dict()["param_groups"]
    torch.save({"epoch": 3, "model": model.state_dict(), "average": model.state_dict(),
                "optimizer": {"state": states, "param_groups": groups}}, path)


def frames(n):
    for _ in range(n):
        yield torch.zeros(2, 3, 64, 64), torch.zeros(2, 3, 128, 128)


def main():
    path = os.path.join(FOLDER, "tracker.pt")
    yesterday(path)
    model = Tracker().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    checkpoint = torch.load(path, map_location="cpu" if FIXED else "cuda")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    for epoch in range(checkpoint["epoch"], checkpoint["epoch"] + 2):
        for template, search in frames(4):
            response = model(template.cuda(), search.cuda())
            loss = F.soft_margin_loss(response, torch.ones_like(response))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print("epoch", epoch, "loss", loss.item())
    os.remove(path)


main()
