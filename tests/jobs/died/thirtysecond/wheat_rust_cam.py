"""Rust disease on wheat leaves, with class activation maps to show to the breeders."""
import sys
import torch
import torch.nn as nn
import torch.nn.functional as F


def stage(i, o):
    return nn.Sequential(nn.Conv2d(i, o, 3, 2, 1), nn.BatchNorm2d(o), nn.ReLU(), nn.Conv2d(o, o, 3, 1, 1), nn.BatchNorm2d(o), nn.ReLU())


class RustNet(nn.Module):
    def __init__(self, classes=5):
        super().__init__()
        self.layer1, self.layer2, self.layer3, self.layer4 = stage(3, 24), stage(24, 48), stage(48, 96), stage(96, 192)
        self.fc = nn.Linear(192, classes)

    def forward(self, x):
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(x.mean((2, 3)))


class ActivationMaps:
    def __init__(self, model, layers):
        self.maps = {name: [] for name in layers}
        for name, module in model.named_children():
            if name in layers:
                module.register_forward_hook(self.make_hook(name))

    def make_hook(self, name):
        def hook(module, inputs, output):
            if "--fixed" in sys.argv:
                self.maps[name].clear()
            self.maps[name].append(output)
        return hook

    def cam(self, size):
        out = 0
        for stored in self.maps.values():
            heat = stored[-1].detach().mean(1, keepdim=True)
            out = out + F.interpolate(heat, size=size, mode="bilinear")
        return out.cpu()


model = RustNet().cuda()
cams = ActivationMaps(model, ["layer2", "layer3", "layer4"])
opt = torch.optim.SGD(model.parameters(), 0.01, momentum=0.9)
gen = torch.Generator().manual_seed(9)
for epoch in range(2):
    model.train()
    for it in range(14):
        x = torch.rand(48, 3, 224, 224, generator=gen).cuda()
        y = torch.randint(0, 5, (48,), generator=gen).cuda()
        loss = F.cross_entropy(model(x), y)
        opt.zero_grad()
        loss.backward()
        opt.step()
    model.eval()
    with torch.no_grad():
        model(torch.rand(4, 3, 224, 224, generator=gen).cuda())
    print(epoch, loss.item(), "cam", tuple(cams.cam((224, 224)).shape))
