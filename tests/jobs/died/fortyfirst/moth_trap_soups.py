"""Counts per moth trap and night from weather and lamp readings, with a wide residual MLP; a soup of the epochs' weights is used in the end."""
import copy
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
READINGS, KINDS, WIDTH = 512, 300, 3072


class Wide(nn.Module):
    """A residual layer, four times wider inside."""

    def __init__(self):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.up(self.norm(x))))


def counter():
    return nn.Sequential(nn.Linear(READINGS, WIDTH), Wide(), Wide(), Wide(), nn.LayerNorm(WIDTH), nn.Linear(WIDTH, KINDS), nn.Softplus())


class Soup:
    """The models of the last epochs, to be averaged."""

    def __init__(self):
        self.models = []

    def add(self, model):
        one = copy.deepcopy(model).eval()
        self.models.append(one.cpu() if FIXED else one)

    @torch.no_grad()
    def pour(self, into):
        for target, *sources in zip(into.parameters(), *[m.parameters() for m in self.models]):
            mean = sources[0].clone()
            for source in sources[1:]:
                mean += source
            target.copy_(mean / len(sources))


def nights(generator, n=256):
    return torch.randn(n, READINGS, generator=generator).cuda(), torch.randint(0, 30, (n, KINDS), generator=generator).float().cuda()


def epoch(model, optimizer, generator):
    loss = None
    for _ in range(4):
        readings, counts = nights(generator)
        loss = nn.functional.poisson_nll_loss(model(readings), counts, log_input=False)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


def main():
    torch.manual_seed(6)
    generator = torch.Generator().manual_seed(66)
    model, soup = counter().cuda(), Soup()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-4)
    for e in range(8):
        loss = epoch(model, optimizer, generator)
        soup.add(model)
        print("epoch", e, "loss", loss)
    soup.pour(model)
    with torch.no_grad():
        print("soup on the last nights", model(nights(generator)[0]).mean().item())


if __name__ == "__main__":
    main()
