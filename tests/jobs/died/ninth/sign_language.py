"""Words of sign language from short clips: an R(2+1)D network under mixed precision; the settings come from a small table of options."""
import contextlib
import sys
from types import SimpleNamespace

import torch
import torch.nn.functional as F
from torch import nn

defaults = {"amp": False, "frames": 16, "size": 112, "batch": 8, "lr": 0.02, "words": 300, "width": 32}
if "--fixed" in sys.argv:
    defaults["amp"] = True
options = SimpleNamespace(**defaults)


class Conv2Plus1(nn.Sequential):
    def __init__(self, cin, cout, stride=1):
        middle = (27 * cin * cout) // (9 * cin + 3 * cout)
        super().__init__(
            nn.Conv3d(cin, middle, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False), nn.BatchNorm3d(middle), nn.ReLU(),
            nn.Conv3d(middle, cout, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False), nn.BatchNorm3d(cout))


class Residual(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.a, self.b = Conv2Plus1(cin, cout, stride), Conv2Plus1(cout, cout)
        self.skip = nn.Conv3d(cin, cout, 1, stride, bias=False) if stride > 1 else nn.Identity()

    def forward(self, x):
        return F.relu(self.b(F.relu(self.a(x))) + self.skip(x))


def network(w, words):
    return nn.Sequential(
        nn.Conv3d(3, w, (1, 7, 7), (1, 2, 2), (0, 3, 3), bias=False), nn.BatchNorm3d(w), nn.ReLU(),
        Residual(w, w, 1), Residual(w, 2 * w, 2), Residual(2 * w, 4 * w, 2), Residual(4 * w, 8 * w, 2),
        nn.AdaptiveAvgPool3d(1), nn.Flatten(), nn.Linear(8 * w, words))


def clips(n):
    for _ in range(n):
        yield torch.zeros(options.batch, 3, options.frames, options.size, options.size), torch.randint(0, options.words, (options.batch,))


def precision():
    return torch.autocast("cuda", dtype=torch.bfloat16) if options.amp else contextlib.nullcontext()


model = network(options.width, options.words).to("cuda")
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
for step, (clip, word) in enumerate(clips(4)):
    clip, word = clip.to("cuda"), word.to("cuda")
    with precision():
        loss = F.cross_entropy(model(clip), word, label_smoothing=0.1)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", loss.item())
