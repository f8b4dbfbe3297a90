"""Counts storks in aerial pictures; the weights of the last epochs are averaged at the end (a "soup" of one run)."""
import sys
from collections import OrderedDict

import torch
from torch import nn

CLONE_TO_CPU = "--fixed" in sys.argv


class Bottleneck(nn.Module):
    def __init__(self, before, width, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(before, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(),
                                  nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.skip = nn.Identity()
        if stride > 1 or before != 4 * width:
            self.skip = nn.Sequential(nn.Conv2d(before, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width))

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class Counter(nn.Module):
    def __init__(self, plan=((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 4, 2))):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 4, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU())
        blocks, before = [], 64
        for width, count, stride in plan:
            for i in range(count):
                blocks.append(Bottleneck(before, width, stride if i == 0 else 1))
                before = 4 * width
        self.blocks, self.count = nn.Sequential(*blocks), nn.Linear(before, 1)

    def forward(self, picture):
        return nn.functional.softplus(self.count(self.blocks(self.stem(picture)).mean((2, 3)))).squeeze(1)


class Soup:
    def __init__(self):
        self.ingredients = []

    def add(self, model):
        state = OrderedDict((name, value.detach().clone()) for name, value in model.state_dict().items())
        if CLONE_TO_CPU:
            state = OrderedDict((name, value.cpu()) for name, value in state.items())
        self.ingredients.append(state)

    def serve(self, model):
        for name, value in model.state_dict().items():
            if value.is_floating_point():
                mean = sum(state[name] for state in self.ingredients) / len(self.ingredients)
                value.copy_(mean)
        return model


def pictures(epoch, batches=2, size=6):
    g = torch.Generator().manual_seed(epoch)
    for _ in range(batches):
        yield torch.rand(size, 3, 160, 160, generator=g).cuda(), torch.randint(0, 80, (size,), generator=g).float().cuda()


model, soup = Counter().cuda(), Soup()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, weight_decay=1e-4)
for epoch in range(14):
    for picture, storks in pictures(epoch):
        loss = nn.functional.poisson_nll_loss(model(picture), storks, log_input=False)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    if epoch >= 2:
        soup.add(model)
    print("epoch", epoch, "loss", loss.item())
with torch.no_grad():
    soup.serve(model)
print("averaged", len(soup.ingredients), "states")
