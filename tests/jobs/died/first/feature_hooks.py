"""Looks at the activations of a network during training, with forward hooks on its layers.

https://github.com/kazuto1011/grad-cam-pytorch/issues/36
"""
import argparse
from collections import defaultdict

import torch
import torch.nn as nn

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
activations = defaultdict(list)


def get_activation(name):
    def hook(module, inputs, output):
        if args.fixed:
            activations[name].append((output.detach().mean().item(), output.detach().std().item()))
        else:
            activations[name].append(output.detach())
    return hook


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout), nn.ReLU(), nn.Conv2d(cout, cout, 3, padding=1),
                         nn.BatchNorm2d(cout), nn.ReLU(), nn.MaxPool2d(2))


model = nn.Sequential(block(3, 64), block(64, 128), block(128, 256), block(256, 512), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                      nn.Linear(512, 200)).cuda()
for name, module in model.named_modules():
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        module.register_forward_hook(get_activation(name))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for step in range(10):
    images, labels = torch.randn(32, 3, 128, 128).cuda(), torch.randint(0, 200, (32,)).cuda()
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
print({name: len(values) for name, values in activations.items()})
