"""Are flat minima better? Trains a small VGG and follows the trace of the Hessian (Hutchinson) during training."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv


def vgg(cfg=(32, 32, "M", 64, 64, "M", 128, "M"), classes=10):
    layers, c = [], 3
    for v in cfg:
        if v == "M":
            layers.append(nn.AvgPool2d(2))
        else:
            layers += [nn.Conv2d(c, v, 3, padding=1), nn.Softplus()]
            c = v
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(c * 16, classes))


class FlatnessProbe:
    """Keeps a curve of estimates of tr(H), one for each call."""

    def __init__(self, model, x, y, gen):
        self.model, self.x, self.y, self.gen = model, x, y, gen
        self.params = [p for p in model.parameters() if p.requires_grad]
        self.curve = []

    def rademacher(self, p):
        return (torch.randint(0, 2, p.shape, generator=self.gen).float() * 2 - 1).to(p.device)

    def __call__(self):
        loss = F.cross_entropy(self.model(self.x), self.y)
        grads = torch.autograd.grad(loss, self.params, create_graph=True)
        vs = [self.rademacher(p) for p in self.params]
        hv = torch.autograd.grad(grads, self.params, grad_outputs=vs, create_graph=True)
        trace = sum((h * v).sum() for h, v in zip(hv, vs))
        if FIXED:
            trace = trace.item()
        self.curve.append(trace)


def batches(gen, n, size=128):
    for _ in range(n):
        yield torch.randn(size, 3, 32, 32, generator=gen), torch.randint(0, 10, (size,), generator=gen)


def main():
    gen = torch.Generator().manual_seed(11)
    net = vgg().cuda()
    opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
    held_x, held_y = next(batches(gen, 1, 96))
    probe = FlatnessProbe(net, held_x.cuda(), held_y.cuda(), gen)
    for i, (x, y) in enumerate(batches(gen, 32)):
        loss = F.cross_entropy(net(x.cuda()), y.cuda())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if i % 2 == 1:
            probe()
            print("iter", i, "loss", loss.item(), "probes", len(probe.curve))
    print("trace went from", float(probe.curve[0]), "to", float(probe.curve[-1]))


main()
