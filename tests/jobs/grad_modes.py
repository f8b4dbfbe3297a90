"""Passes with and without a graph, each in a function of its name. grad_modes.py FILE: writes whether PyTorch gave their results a node."""
import json
import sys

import torch
from torch import nn
from torch.autograd import Function
from torch.utils.checkpoint import checkpoint

LAYERS = 12
model = nn.Sequential(*[nn.Linear(512, 512) for _ in range(LAYERS)]).cuda()
frozen = nn.Sequential(*[nn.Linear(512, 512) for _ in range(LAYERS)]).cuda().requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters())
truth = {}


class Square(Function):
    """Makes its node where gradients are disabled, too."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * 0.5

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class Outer(Function):
    """Calls other functions, with gradients or without."""

    @staticmethod
    def forward(ctx, x, with_gradients):
        with torch.set_grad_enabled(with_gradients):
            y = own(x)
        return sum(y.detach() * k for k in range(12))

    @staticmethod
    def backward(ctx, g):
        return g, None


def own(x):
    for layer in model:
        x = layer(Square.apply(x))
    return x


def trained(x):
    return model(x)


def without(x):
    with torch.no_grad():
        return model(x)


def inference(x):
    with torch.inference_mode():
        return model(x)


def of_frozen(x):
    return frozen(x)


def own_trained(x):
    return own(x)


def own_without(x):
    with torch.no_grad():
        return own(x)


def recomputed(x):
    for layer in model:
        x = checkpoint(layer, x, use_reentrant=False)
    return x


def recomputed_as_a_function(x):
    for layer in model:
        x = checkpoint(lambda x, layer=layer: layer(Square.apply(x)), x, use_reentrant=True)
    return x


def nested(x):
    return Outer.apply(x.requires_grad_(), False)


def nested_with_gradients(x):
    return Outer.apply(x.requires_grad_(), True)


def packed(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t * 2 if t.is_floating_point() else t, lambda t: t / 2 if t.is_floating_point() else t):
        return model(x)


def listed(x):
    return sum(torch._foreach_mul([x * layer.weight[:256] for layer in model], 2.0))


def of_frozen_with_functions(x):
    for layer in frozen:
        x = layer(Square.apply(x))
    return x


def behind_a_function(x):
    with torch.no_grad():
        return model(x)


def run(function):
    y = function(torch.randn(256, 512, device="cuda"))
    truth[function.__name__] = y.grad_fn is not None
    return y


for name in ("trained", "without", "trained", "inference", "own_trained", "own_without", "recomputed", "of_frozen", "trained", "own_without", "recomputed_as_a_function",
             "nested", "behind_a_function", "nested_with_gradients", "packed", "listed", "of_frozen_with_functions"):
    y = run(globals()[name])
    if y.grad_fn is not None:
        y.sum().backward()
        optimizer.step()
        optimizer.zero_grad()
with open(sys.argv[1], "w") as f:
    json.dump(truth, f)
