"""The adversarial examples tutorial, grown: iterated attacks on a badge recogniser, and the examples of each strength are shown at the end."""
import sys

import torch
from torch import nn
from torch.nn import functional as F

FIXED = "--fixed" in sys.argv
STRENGTHS = [0.0, 0.01, 0.02, 0.03, 0.04]


class Badges(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2, self.conv3 = nn.Conv2d(3, 32, 3, 2, 1), nn.Conv2d(32, 64, 3, 2, 1), nn.Conv2d(64, 128, 3, 2, 1)
        self.fc = nn.Linear(128, 20)

    def forward(self, x):
        for conv in (self.conv1, self.conv2, self.conv3):
            x = F.relu(conv(x))
        return self.fc(x.mean((2, 3)))


def attack(model, images, target, strength, steps=3):
    perturbed = images
    for _ in range(steps):
        if FIXED:
            perturbed = perturbed.detach()
        perturbed = perturbed.requires_grad_(True) if perturbed.is_leaf else perturbed
        loss = F.cross_entropy(model(perturbed), target)
        gradient, = torch.autograd.grad(loss, perturbed, retain_graph=not FIXED, create_graph=not FIXED)
        perturbed = (perturbed + strength / steps * gradient.sign()).clamp(0, 1)
    return perturbed


def test(model, strength, batches=8):
    correct, examples = 0, []
    for k in range(batches):
        images, target = torch.rand(32, 3, 128, 128).cuda(), torch.randint(0, 20, (32,)).cuda()
        perturbed = attack(model, images, target, strength)
        said = model(perturbed).argmax(1)
        correct += (said == target).sum().item()
        if k < 6:
            examples.append((target[:4].tolist(), perturbed[:4].detach().cpu() if FIXED else perturbed[:4]))
    print("strength %.2f correct %d" % (strength, correct))
    return examples


def show(examples):
    for strength, rows in zip(STRENGTHS, examples):
        shown = torch.cat([images.detach().cpu() for _, images in rows])
        print("strength", strength, "shows", tuple(shown.shape))


model = Badges().cuda().eval()
for parameter in model.parameters():
    parameter.requires_grad_(False)
show([test(model, s) for s in STRENGTHS])
