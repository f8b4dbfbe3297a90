"""Genera of mosses from macro photographs, an MLP-Mixer written by hand; the weights of the last epochs are averaged at the end."""
import copy
import sys

import torch
import torch.nn as nn

CPU_ONLY = "--fixed" in sys.argv


class MixerLayer(nn.Module):
    def __init__(self, patches, width, token_width, channel_width):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.tokens = nn.Sequential(nn.Linear(patches, token_width), nn.GELU(), nn.Linear(token_width, patches))
        self.channels = nn.Sequential(nn.Linear(width, channel_width), nn.GELU(), nn.Linear(channel_width, width))

    def forward(self, x):
        x = x + self.tokens(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.channels(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, genera=130, size=160, patch=16, width=640, depth=9):
        super().__init__()
        n = (size // patch) ** 2
        self.patchify = nn.Conv2d(3, width, patch, patch)
        self.layers = nn.Sequential(*[MixerLayer(n, width, 320, 2560) for _ in range(depth)])
        self.norm, self.head = nn.LayerNorm(width), nn.Linear(width, genera)

    def forward(self, x):
        x = self.patchify(x).flatten(2).transpose(1, 2)
        return self.head(self.norm(self.layers(x)).mean(1))


class Soup:
    def __init__(self, model):
        self.model, self.weights = model, []

    def epoch_done(self):
        state = copy.deepcopy(self.model.state_dict())
        if CPU_ONLY:
            state = {name: value.cpu() for name, value in state.items()}
        self.weights.append(state)

    def stir(self):
        mean = {}
        for name in self.weights[0]:
            mean[name] = sum(state[name] for state in self.weights) / len(self.weights)
        self.model.load_state_dict(mean)


def main():
    model = Mixer().cuda()
    soup = Soup(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(14):
        for _ in range(3):
            photos, genus = torch.randn(8, 3, 160, 160).cuda(), torch.randint(0, 130, (8,)).cuda()
            loss = nn.functional.cross_entropy(model(photos), genus)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        soup.epoch_done()
        print("epoch", epoch, loss.item())
    soup.stir()


main()
