"""Which training pictures are mislabelled? TracIn scores (Pruthi et al.) for a pollen classifier: inner products of gradients of pictures
with the mean gradient of a trusted set, summed over a few moments of training."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
device = torch.device("cuda")
CLASSES = 23


class PollenNet(nn.Module):
    def __init__(self):
        super().__init__()
        chans = [3, 64, 128, 256, 512]
        self.features = nn.Sequential(*[nn.Sequential(nn.Conv2d(a, b, 3, 2, 1), nn.GroupNorm(16, b), nn.ReLU()) for a, b in zip(chans, chans[1:])])
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(512 * 16, 512), nn.ReLU(), nn.Linear(512, CLASSES))

    def forward(self, x):
        return self.fc(self.features(x))


def make_split(n, seed):
    g = torch.Generator().manual_seed(seed)
    return torch.rand(n, 3, 64, 64, generator=g), torch.randint(0, CLASSES, (n,), generator=g)


def flat_gradient(model, x, y):
    loss = nn.functional.cross_entropy(model(x), y)
    grads = torch.autograd.grad(loss, list(model.parameters()))
    return torch.cat([g.reshape(-1) for g in grads])


def influence(model, suspects, trusted):
    reference = flat_gradient(model, trusted[0].to(device), trusted[1].to(device))
    if FIXED:
        scores = [torch.dot(flat_gradient(model, x[None].to(device), y[None].to(device)), reference).item() for x, y in zip(*suspects)]
        return torch.tensor(scores)
    gradients = []
    for x, y in zip(*suspects):
        gradients.append(flat_gradient(model, x[None].to(device), y[None].to(device)))
    return torch.tensor([torch.dot(g, reference).item() for g in gradients])


def train_epoch(model, optimizer, data, size=64):
    model.train()
    for x, y in zip(data[0].split(size), data[1].split(size)):
        loss = nn.functional.cross_entropy(model(x.to(device)), y.to(device))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    model = PollenNet().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    data, suspects, trusted = make_split(512, 1), make_split(100, 2), make_split(64, 3)
    total = torch.zeros(100)
    for epoch in range(2):
        print("epoch", epoch, "loss", train_epoch(model, optimizer, data))
        total += 0.05 * influence(model, suspects, trusted)
    print("most suspicious:", total.topk(5).indices.tolist())
