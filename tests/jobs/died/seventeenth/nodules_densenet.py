"""Lung nodules, benign or malignant: a small DenseNet, and pictures of what its layers see for the radiologists."""
import sys
import torch
import torch.nn as nn

torch.manual_seed(40)
KEEP_LAST_ONLY = "--fixed" in sys.argv


class DenseLayer(nn.Module):
    def __init__(self, cin, growth):
        super().__init__()
        self.f = nn.Sequential(nn.BatchNorm2d(cin), nn.ReLU(), nn.Conv2d(cin, 4 * growth, 1, bias=False), nn.BatchNorm2d(4 * growth),
                               nn.ReLU(), nn.Conv2d(4 * growth, growth, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.f(x)], 1)


class DenseNet(nn.Module):
    def __init__(self, growth=12, blocks=(4, 4, 4)):
        super().__init__()
        self.stem = nn.Conv2d(1, 24, 3, padding=1, stride=2)
        c, parts = 24, []
        for i, n in enumerate(blocks):
            block = nn.Sequential()
            for j in range(n):
                block.append(DenseLayer(c, growth))
                c += growth
            parts.append(block)
            if i < len(blocks) - 1:
                parts.append(nn.Sequential(nn.BatchNorm2d(c), nn.ReLU(), nn.Conv2d(c, c // 2, 1), nn.AvgPool2d(2)))
                c //= 2
        self.parts = nn.Sequential(*parts)
        self.fc = nn.Linear(c, 2)

    def forward(self, x):
        return self.fc(self.parts(self.stem(x)).mean((2, 3)))


class MapViewer:
    """Collects the maps of the blocks through forward hooks; `sheet` makes a grey picture of one layer's maps."""

    def __init__(self, net):
        self.maps = {}
        for name, module in net.named_modules():
            if isinstance(module, DenseLayer):
                module.register_forward_hook(self._hook(name))

    def _hook(self, name):
        def hook(module, inputs, output):
            if KEEP_LAST_ONLY:
                self.maps[name] = [output[:1].detach().cpu()]
            else:
                self.maps.setdefault(name, []).append(output.detach())
        return hook

    def sheet(self, name):
        grid = self.maps[name][-1][0].cpu()
        return (grid - grid.amin()) / (grid.amax() - grid.amin() + 1e-6)


net = DenseNet().cuda()
viewer = MapViewer(net)
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
for step in range(16):
    patch, malignant = torch.randn(16, 1, 128, 128).cuda(), torch.randint(0, 2, (16,)).cuda()
    loss = nn.functional.cross_entropy(net(patch), malignant)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 8 == 7:
        print("step", step, "loss", loss.item(), "sheet", tuple(viewer.sheet("parts.0.1").shape))
