"""Counts 5,000 numbers and rounds each count up to whole tiles by Triton kernels, and sizes a tensor by the sum; with "unknown", counts numbers that the device did not compute."""
import json
import sys

import torch
import triton
import triton.language as tl

TILE = tl.constexpr(64)


@triton.jit
def _tiles_of(count):
    return (count + TILE - 1) // TILE


@triton.jit
def count_numbers(numbers, counts, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    number = tl.load(numbers + at, mask=at < n, other=0)
    tl.atomic_add(counts + number, tl.full([BLOCK], 1, tl.int32), mask=at < n)


@triton.jit
def tile_offsets(counts, offsets, E: tl.constexpr):
    e = tl.arange(0, E)
    tl.store(offsets, 0)
    tl.store(offsets + 1 + e, tl.cumsum(_tiles_of(tl.load(counts + e)), 0))


def main():
    torch.manual_seed(0)
    numbers = torch.randint(0, 16, (5000,))
    wanted = int(((torch.bincount(numbers, minlength=16) + 63) // 64).sum())
    if "unknown" in sys.argv:
        on_gpu = torch.ones(2 ** 28 + 1, dtype=torch.int32, device="cuda")[:5000].clone()
    else:
        on_gpu = numbers.to(torch.int32).cuda()
    counts = torch.zeros(16, dtype=torch.int32, device="cuda")
    before = torch.full((17,), 3.0, device="cuda")
    del before      # the offsets get its memory
    offsets = torch.empty(17, dtype=torch.int32, device="cuda")
    count_numbers[(triton.cdiv(5000, 256),)](on_gpu, counts, 5000, BLOCK=256)
    tile_offsets[lambda meta: (1,)](counts, offsets, E=16)
    rows = int(offsets[-1].item())
    tiles = torch.empty(1 if "unknown" in sys.argv else rows, 1024, device="cuda")
    print(json.dumps({"tiles": list(tiles.shape), "wanted": wanted}))


main()
