"""Does a network that learns to recognise scenes become more like visual cortex?

Trains a small residual network and compares, every epoch, the similarity matrices of its layers with those of V1, V4, PPA and RSC.
"""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv


class Res(nn.Module):
    def __init__(self, i, o, s):
        super().__init__()
        self.a, self.b = nn.Conv2d(i, o, 3, s, 1, bias=False), nn.Conv2d(o, o, 3, 1, 1, bias=False)
        self.na, self.nb = nn.BatchNorm2d(o), nn.BatchNorm2d(o)
        self.skip = nn.Conv2d(i, o, 1, s, bias=False)

    def forward(self, x):
        return torch.relu(self.skip(x) + self.nb(self.b(torch.relu(self.na(self.a(x))))))


class SceneNet(nn.Module):
    def __init__(self, scenes=60):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 32, 5, 2, 2), nn.BatchNorm2d(32), nn.ReLU())
        self.v1, self.v2, self.v4, self.it = Res(32, 48, 1), Res(48, 96, 2), Res(96, 160, 2), Res(160, 256, 2)
        self.fc = nn.Linear(256, scenes)

    def forward(self, x):
        return self.fc(self.it(self.v4(self.v2(self.v1(self.stem(x))))).mean((2, 3)))


class LayerRecorder:
    """Collects what the layers put out, batch after batch."""

    def __init__(self, net, names=("v1", "v2", "v4", "it")):
        self.features = {name: [] for name in names}
        self.handles = [getattr(net, name).register_forward_hook(self.make(name)) for name in names]

    def make(self, name):
        def hook(module, inputs, output):
            self.features[name].append(output.detach().flatten(1))
        return hook

    def similarity(self):
        return {name: torch.corrcoef(torch.cat(parts)) for name, parts in self.features.items()}

    def close(self):
        for handle in self.handles:
            handle.remove()


def brain_score(net, stimuli, brain):
    net.eval()
    recorder = LayerRecorder(net)
    with torch.no_grad():
        for part in stimuli.split(16):
            net(part.cuda())
    model = recorder.similarity()
    scores = {name: torch.corrcoef(torch.stack([rdm.flatten(), brain[name].cuda().flatten()]))[0, 1].item() for name, rdm in model.items()}
    if FIXED:
        recorder.close()
    net.train()
    return scores


def main():
    g = torch.Generator().manual_seed(6)
    stimuli = torch.rand(72, 3, 128, 128, generator=g)
    brain = {name: torch.rand(72, 72, generator=g) for name in ("v1", "v2", "v4", "it")}
    net = SceneNet().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.1, momentum=0.9, weight_decay=5e-4)
    for epoch in range(3):
        for _ in range(30):
            x, y = torch.rand(32, 3, 128, 128, generator=g), torch.randint(0, 60, (32,), generator=g)
            loss = nn.functional.cross_entropy(net(x.cuda()), y.cuda())
            opt.zero_grad()
            loss.backward()
            opt.step()
        print("epoch", epoch, "loss", loss.item(), "similarity", brain_score(net, stimuli, brain))


main()
