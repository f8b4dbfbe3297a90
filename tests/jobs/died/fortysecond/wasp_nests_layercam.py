"""Where does a ResNet look when it finds wasp nests under roofs? Heat maps from the activations and gradients of its four stages (Layer-CAM)."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


class Block(nn.Module):
    """A basic block."""

    def __init__(self, cin, c, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(cin, c, 3, stride, 1, bias=False), nn.BatchNorm2d(c)
        self.conv2, self.bn2 = nn.Conv2d(c, c, 3, 1, 1, bias=False), nn.BatchNorm2d(c)
        self.short = nn.Conv2d(cin, c, 1, stride, bias=False) if stride > 1 or cin != c else nn.Identity()

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.short(x))


class NestFinder(nn.Module):
    """ResNet-18 with two classes."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(3, 2, 1))
        widths = (64, 64, 128, 256, 512)
        self.stages = nn.ModuleList(nn.Sequential(Block(a, b, 1 if i == 0 else 2), Block(b, b, 1)) for i, (a, b) in enumerate(zip(widths, widths[1:])))
        self.head = nn.Linear(512, 2)

    def forward(self, x):
        x = self.stem(x)
        for stage in self.stages:
            x = stage(x)
        return self.head(x.mean((2, 3)))


class LayerCam:
    """Hooks on the stages; a map is the positive part of gradient times activation."""

    def __init__(self, model):
        self.model, self.activations, self.gradients = model, [], []
        for stage in model.stages:
            stage.register_forward_hook(self.seen)
            stage.register_full_backward_hook(self.pulled)

    def seen(self, module, inputs, output):
        self.activations.append(output.detach().clone())

    def pulled(self, module, inputs, outputs):
        self.gradients.append(outputs[0].detach().clone())

    def __call__(self, photographs):
        if FIXED:
            self.activations.clear()
            self.gradients.clear()
        score = self.model(photographs)[:, 1].sum()
        self.model.zero_grad(set_to_none=True)
        score.backward()
        maps = []
        for a, g in zip(self.activations[-4:], reversed(self.gradients[-4:])):
            heat = F.relu((F.relu(g) * a).sum(1, keepdim=True))
            maps.append(F.interpolate(heat, photographs.shape[-2:], mode="bilinear"))
        return torch.stack(maps).mean(0)


def main():
    torch.manual_seed(8)
    model = NestFinder().cuda().eval()
    cam, total = LayerCam(model), torch.zeros(224, 224)
    for n in range(14):
        photographs = torch.rand(16, 3, 224, 224, generator=torch.Generator().manual_seed(n)).cuda()
        total += cam(photographs).sum((0, 1)).cpu()
        print("roofs", 16 * (n + 1), "warmest", total.max().item())


if __name__ == "__main__":
    main()
