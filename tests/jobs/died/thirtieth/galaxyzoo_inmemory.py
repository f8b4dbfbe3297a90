"""Galaxy Zoo morphology regression. Everything fits in RAM, so there is no need for workers."""
import sys

import torch
import torch.nn as nn

ON_CPU = "--fixed" in sys.argv
ANSWERS = 37


class InMemoryGalaxies:
    def __init__(self, count, side=96, seed=0):
        g = torch.Generator().manual_seed(seed)
        few = torch.randint(0, 256, (500, 3, side, side), generator=g, dtype=torch.uint8)
        images = few.repeat(count // 500, 1, 1, 1)
        votes = torch.rand(count, ANSWERS, generator=g)
        if not ON_CPU:
            images = images.cuda().float() / 255
            votes = votes.cuda()
        self.images, self.votes = images, votes

    def __len__(self):
        return len(self.images)

    def epoch(self, batch_size):
        order = torch.randperm(len(self))
        for idx in order.split(batch_size):
            x, y = self.images[idx.to(self.images.device)], self.votes[idx.to(self.votes.device)]
            if ON_CPU:
                x, y = x.cuda().float() / 255, y.cuda()
            if torch.rand(()) < 0.5:
                x = x.flip(-1)
            yield x, y


class Dieleman(nn.Module):
    """Loosely after the winner of the Kaggle contest."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 32, 6), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(32, 64, 5), nn.ReLU(), nn.MaxPool2d(2),
            nn.Conv2d(64, 128, 3), nn.ReLU(), nn.Conv2d(128, 128, 3), nn.ReLU(), nn.AdaptiveMaxPool2d(4))
        self.head = nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(2048, 512), nn.ReLU(), nn.Dropout(), nn.Linear(512, ANSWERS))

    def forward(self, x):
        return torch.sigmoid(self.head(self.features(x)))


def rmse(p, t):
    return (p - t).pow(2).mean().sqrt()


def run():
    train, valid = InMemoryGalaxies(5000), InMemoryGalaxies(500, seed=1)
    net = Dieleman().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.04, momentum=0.9, nesterov=True)
    for ep in range(2):
        net.train()
        for x, y in train.epoch(64):
            loss = rmse(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
        net.eval()
        with torch.inference_mode():
            scores = [rmse(net(x), y).item() for x, y in valid.epoch(64)]
        print("epoch", ep, "train", loss.item(), "valid", sum(scores) / len(scores))


run()
