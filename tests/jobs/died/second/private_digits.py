"""Differentially private training: a gradient of each example by torch.func, clipped, summed, with noise.

After https://github.com/meta-pytorch/opacus/issues/561 and https://github.com/kkirchheim/pytorch-ood/pull/163
"""
import argparse

import torch
from torch import nn
from torch.func import functional_call, grad, vmap


class DigitNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(1, 32, 5, 2, 2), nn.GELU(), nn.Conv2d(32, 64, 5, 2, 2), nn.GELU())
        self.fc = nn.Sequential(nn.Flatten(), nn.Linear(64 * 49, 1600), nn.GELU(), nn.Linear(1600, 10))

    def forward(self, x):
        return self.fc(self.conv(x))


def private_gradients(net, images, labels, bound):
    parameters = {k: p.detach() for k, p in net.named_parameters()}

    def loss(p, image, label):
        return nn.functional.cross_entropy(functional_call(net, p, (image.unsqueeze(0),)), label.unsqueeze(0))

    each = vmap(grad(loss), in_dims=(None, 0, 0))(parameters, images, labels)
    norm = torch.stack([g.flatten(1).norm(dim=1) for g in each.values()]).norm(dim=0)
    factor = (bound / (norm + 1e-6)).clamp(max=1)
    return {k: torch.einsum("n,n...->...", factor, g) for k, g in each.items()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--batch", type=int, default=192)
    parser.add_argument("--physical", type=int, default=0)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    physical = 16 if args.fixed else args.physical or args.batch
    net = DigitNet().cuda()
    sgd = torch.optim.SGD(net.parameters(), lr=0.5, momentum=0.9)
    for step in range(6):
        images, labels = torch.rand(args.batch, 1, 28, 28).cuda(), torch.randint(10, (args.batch,)).cuda()
        sgd.zero_grad(set_to_none=False)
        for x, y in zip(images.split(physical), labels.split(physical)):
            for name, total in private_gradients(net, x, y, bound=1.0).items():
                p = net.get_parameter(name)
                p.grad = total if p.grad is None else p.grad.add_(total)
        for p in net.parameters():
            p.grad.add_(torch.randn_like(p), alpha=1.1).div_(args.batch)
        sgd.step()
        print("step", step, net.fc[1].weight.norm().item())


if __name__ == "__main__":
    main()
