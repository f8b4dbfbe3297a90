"""Starts a script of pytorch-memory-optim with made-up images and random weights, four training batches and two of validation: memory_optim.py SCRIPT"""
import os
import runpy
import sys
import types

import torch
import torchvision.models
from said import reserved_peak

# CIFAR-10's 5000 images of validation leave 8 in the last batch of 64 or 16; a batch of training is always full.
REST = 8


def loaders(batch_size, **_):
    def batch(size):
        return torch.rand(size, 3, 224, 224), torch.randint(0, 10, (size,))
    train, held_out = [batch(batch_size) for _ in range(4)], [batch(batch_size), batch(min(batch_size, REST))]
    return tuple(torch.utils.data.DataLoader(part, batch_size=None) for part in (train, held_out, held_out[:1]))


made = torchvision.models.vit_l_16
torchvision.models.vit_l_16 = lambda weights=None, **given: made(**given)
sys.modules["watermark"] = types.SimpleNamespace(watermark=lambda **_: "")
sys.modules["local_utilities"] = types.SimpleNamespace(get_dataloaders_cifar10=loaders)
out, sys.stdout = sys.stdout, sys.stderr
runpy.run_path(os.path.join(os.environ["CHECKOUT"], sys.argv[1]), run_name="__main__")
sys.stdout = out
reserved_peak("peak")
