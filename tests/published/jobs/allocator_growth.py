"""Ten tensors of growing size, one after another, each bound to the name of the one before; with "del" that one is freed first."""
import sys

import torch
from said import peak, reserved_peak

for i in range(10):
    a = torch.rand(1000, 1000, i + 1, device="cuda:0")
    peak("allocated %d" % (i + 1))
    reserved_peak("reserved %d" % (i + 1))
    if sys.argv[1] == "del":
        del a
