"""Attention by cuDNN: a line of JSON with how many times the processor time of a known length a new one of the keys takes, and one for each of SHAPES with
what its backward pass takes at most: the gradients, and the workspace."""
import json
import time

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel

LENGTHS = range(200, 220)
SHAPES = (1, 4, 1024, 128), (2, 8, 511, 64), (1, 4, 4096, 128)


def peak_of_backward(shape):
    q, k, v = (torch.randn(shape, device="cuda", dtype=torch.bfloat16, requires_grad=True) for _ in range(3))
    out = F.scaled_dot_product_attention(q, k, v)
    gradient = torch.zeros_like(out)
    before = torch.cuda.memory_allocated()
    torch.cuda.reset_peak_memory_stats()
    out.backward(gradient)
    return torch.cuda.max_memory_allocated() - before


def seconds(lengths):
    """The processor time of a call, on average."""
    began = time.process_time()
    for length in lengths:
        k = torch.randn(1, 16, length, 64, device="cuda", dtype=torch.bfloat16)
        F.scaled_dot_product_attention(q, k, k)
    return (time.process_time() - began) / len(lengths)


with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
    q = torch.randn(1, 16, 1, 64, device="cuda", dtype=torch.bfloat16)
    seconds([100])  # loads cuDNN
    new = seconds(LENGTHS)
    print(json.dumps({"times": new / seconds(list(LENGTHS) * 20)}))
    for shape in SHAPES:
        print(json.dumps({"shape": shape, "bytes": peak_of_backward(shape)}))
