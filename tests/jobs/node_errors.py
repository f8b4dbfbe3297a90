"""Backward passes that end with an error, in one thread and in four: of a function of the job's own, also within both kinds of checkpoints, and of
memory that runs out. Ends with status 0 if each error came, and all other passes were right."""
import threading

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

layer = nn.Linear(256, 256).cuda()


class Fails(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        raise ValueError("no gradient")


def train(fails, reentrant):
    x = torch.randn(512, 256, device="cuda", requires_grad=True)

    def forward(y):
        y = torch.relu(layer(y))
        return Fails.apply(y) if fails else y * 2
    y = forward(x) if reentrant is None else checkpoint(forward, x, use_reentrant=reentrant)
    try:
        (y * 3).sum().backward()
    except ValueError:
        return fails
    return not fails


def run_out_of_memory():
    x, rest = torch.randn(1024, 1024, device="cuda", requires_grad=True), []
    y = torch.cat([x] * 8) @ torch.randn(1024, 1024, device="cuda")
    try:
        while True:
            rest.append(torch.empty(8 << 20, device="cuda"))
    except RuntimeError:
        pass
    try:
        y.sum().backward()
    except RuntimeError as error:
        return "out of memory" in str(error)


def every_kind():
    return all([train(fails, reentrant) for fails in (False, True) for reentrant in (None, True, False) for _ in range(10)])


right = [every_kind()]
threads = [threading.Thread(target=lambda: right.append(every_kind())) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
raise SystemExit(not (right == [True] * 5 and run_out_of_memory() and every_kind()))
