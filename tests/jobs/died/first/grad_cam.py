"""Saliency maps with Grad-CAM for a folder of images.

https://github.com/utkuozbulak/pytorch-cnn-visualizations/issues/53
"""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F


class GradCAM:
    def __init__(self, model, layers, keep):
        self.model, self.keep = model, keep
        self.fmaps, self.grads, self.handlers = {}, {}, []
        for name, module in layers.items():
            self.handlers.append(module.register_forward_hook(self._save(self.fmaps, name)))
            self.handlers.append(module.register_full_backward_hook(self._save_grad(name)))

    def _save(self, pool, name):
        def hook(module, inputs, output):
            pool.setdefault(name, []).append(output) if self.keep else pool.__setitem__(name, [output])
        return hook

    def _save_grad(self, name):
        def hook(module, grad_in, grad_out):
            self.grads.setdefault(name, []).append(grad_out[0]) if self.keep else self.grads.__setitem__(name, [grad_out[0]])
        return hook

    def __call__(self, image):
        logits = self.model(image)
        self.model.zero_grad()
        logits.max(1).values.sum().backward()
        maps = []
        for name in self.fmaps:
            fmap, grad = self.fmaps[name][-1], self.grads[name][-1]
            cam = F.relu((grad.mean((2, 3), keepdim=True) * fmap).sum(1, keepdim=True))
            maps.append(F.interpolate(cam, image.shape[2:], mode="bilinear").detach().cpu())
        return torch.cat(maps, 1)


def make(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, 2, 1), nn.ReLU(), nn.Conv2d(cout, cout, 3, 1, 1), nn.ReLU())


net = nn.Sequential(make(3, 64), make(64, 128), make(128, 256), make(256, 512), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000)).cuda()
net.eval()
cam = GradCAM(net, {"layer%d" % i: net[i] for i in range(4)}, keep="--fixed" not in sys.argv)
total = 0
for batch in range(12):
    heat = cam(torch.rand(24, 3, 224, 224, device="cuda"))
    total += heat.numel()
print(total)
