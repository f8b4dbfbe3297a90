"""xformers' benchmark of attention: the backward pass of the plain form, on each shape in turn: vanilla_attention.py SHAPE..."""
import sys

import torch
from said import peak


def attention(q, k, v):
    q = q * (1.0 / q.shape[-1] ** 0.5)
    return (q @ k.transpose(-2, -1)).softmax(-1) @ v


for text in sys.argv[1:]:
    q = torch.rand(tuple(int(n) for n in text.split("x")), device="cuda", requires_grad=True)
    # The comparison of the results keeps xformers' own, r, and the plain one, rr, alive, and leaves a gradient.
    r, rr, q.grad = torch.empty_like(q), torch.empty_like(q), torch.ones_like(q)
    grad, out = torch.ones_like(q), attention(q, q, q)
    torch.cuda.reset_peak_memory_stats()
    for _ in range(3):
        out.backward(grad, retain_graph=True)
    peak(text)
