"""Grades roofing slate from photographs and averages the best epochs' weights at the end ("greedy" averaging)."""
import sys

import torch
import torch.nn as nn


class SlateNet(nn.Module):
    def __init__(self, grades=6):
        super().__init__()
        widths = [3, 64, 128, 256, 512, 1024]
        self.convs = nn.ModuleList(nn.Conv2d(a, b, 3, 2, 1) for a, b in zip(widths, widths[1:]))
        self.norms = nn.ModuleList(nn.BatchNorm2d(b) for b in widths[1:])
        self.neck = nn.Sequential(nn.Linear(1024 * 9, 2048), nn.ReLU(), nn.Dropout(0.4))
        self.head = nn.Linear(2048, grades)

    def forward(self, x):
        for conv, norm in zip(self.convs, self.norms):
            x = norm(conv(x)).relu()
        return self.head(self.neck(x.flatten(1)))


class WeightAverager:
    """Remembers the weights of each epoch with the score it had."""

    def __init__(self, device="cuda"):
        self.entries = []
        self.device = device

    def add(self, score, model):
        weights = {name: tensor.detach().to(self.device, copy=True) for name, tensor in model.state_dict().items()}
        self.entries.append((score, weights))

    def average(self, best=3):
        chosen = [w for _, w in sorted(self.entries, key=lambda e: -e[0])[:best]]
        return {name: sum(w[name].float() for w in chosen) / len(chosen) for name in chosen[0]}


def photos(batches, size=16):
    base = torch.rand(size, 3, 96, 96)
    for i in range(batches):
        yield base.roll(i, 3), torch.randint(0, 6, (size,))


def run(epochs=14):
    model = SlateNet().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    averager = WeightAverager("cpu" if "--fixed" in sys.argv else "cuda")
    for epoch in range(epochs):
        model.train()
        for x, y in photos(3):
            loss = nn.functional.cross_entropy(model(x.cuda()), y.cuda())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            right = sum((model(x.cuda()).argmax(-1).cpu() == y).sum().item() for x, y in photos(1))
        averager.add(right / 16, model)
        print(f"epoch {epoch}: loss {loss.item():.3f}, accuracy {right / 16:.2f}")
    model.load_state_dict(averager.average())
    print("averaged the best of", len(averager.entries))


run()
