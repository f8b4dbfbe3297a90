"""Short programs of issue threads and READMEs, each with the numbers that its author printed: threads.py NAME"""
import gc
import sys

import torch
from said import peak, say


def allocated(key):
    torch.cuda.synchronize()
    say(key, torch.cuda.memory_allocated())


def without_workspaces(key):
    """As before PyTorch 2.0, which has cuBLAS's workspaces in its own allocator."""
    torch._C._cuda_clearCublasWorkspaces()
    allocated(key)


def reporter():
    """pytorch_memlab's README: one linear layer, before and after the backward pass."""
    linear = torch.nn.Linear(1024, 1024).cuda()
    allocated("linear")
    x = torch.Tensor(512, 1024).cuda()
    out = linear(x).mean()
    without_workspaces("before backward")
    out.backward()
    without_workspaces("after backward")
    del linear, x, out
    shared = torch.nn.Sequential(torch.nn.Linear(1024, 1024).cuda(), torch.nn.Linear(1024, 1024).cuda())
    shared[1].weight = shared[0].weight
    x = torch.Tensor(512, 1024).cuda()
    out = shared(x).mean()
    out.backward()
    without_workspaces("shared weights")
    del shared, x, out
    linear = torch.nn.Linear(1024, 1024).cuda()
    x = torch.Tensor(512, 1024).cuda()
    out = linear(x * (x + 2)).mean()
    without_workspaces("hidden buffer")


def two_layers():
    model = torch.nn.Sequential(torch.nn.Linear(1024, 1024, bias=False), torch.nn.Linear(1024, 1024, bias=False)).cuda()
    x = torch.rand(4, 256, 1024).cuda()
    y = model(x).sum()
    without_workspaces("memory1")
    y.backward()
    without_workspaces("memory2")


def leak():
    def f():
        model = torch.nn.Linear(1, 1, device="cuda")
        model(torch.randn(1, 1, device="cuda"))
    f()
    allocated("left")


def radam():
    torch.set_default_device("cuda")
    params = [torch.ones(32, 32) for _ in range(10)]
    for p in params:
        p.grad = torch.ones_like(p)
    optimizer = torch.optim.RAdam(params, lr=0.1, capturable=True, foreach=True)
    step = torch.compile(backend="eager")(lambda: optimizer.step()) if sys.argv[2:] == ["compile"] else optimizer.step
    gc.collect()
    torch.cuda.reset_peak_memory_stats()
    step()
    if sys.argv[2:] == ["compile"]:
        torch._dynamo.reset()
    gc.collect()
    peak("peak")


globals()[sys.argv[1]]()
