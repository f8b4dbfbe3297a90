"""Runs a script under PyTorch's cudaMallocAsync backend, and prints what the device's pool says itself at its end: used, its peak,
reserved, its peak. pool_truth.py SCRIPT [ARG...]"""
import ctypes
import os
import runpy
import sys

import torch

# cudaMemPoolAttr
RESERVED_CURRENT, RESERVED_HIGH, USED_CURRENT, USED_HIGH = 5, 6, 7, 8

if __name__ == "__main__":
    script = sys.argv[1]
    sys.argv = sys.argv[1:]
    kept = runpy.run_path(script, run_name="__main__")
    cuda = ctypes.CDLL("libcuda.so.1")
    pool, value = ctypes.c_void_p(), ctypes.c_uint64()
    assert cuda.cuDeviceGetDefaultMemPool(ctypes.byref(pool), 0) == 0
    said = []
    for attribute in (USED_CURRENT, USED_HIGH, RESERVED_CURRENT, RESERVED_HIGH):
        assert cuda.cuMemPoolGetAttribute(pool, attribute, ctypes.byref(value)) == 0
        said.append(value.value)
    assert torch.cuda.max_memory_allocated() == said[1] and torch.cuda.max_memory_reserved() == said[3]
    print("pool", *said)
    sys.stdout.flush()
    os._exit(0)
