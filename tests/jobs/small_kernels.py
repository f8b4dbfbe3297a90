"""Small integer work on the device beside the same on the CPU: what the simulated device computes must be what PyTorch computes.
Prints a line for each difference, and at the end how many were compared."""
import sys

import torch

torch.manual_seed(1)
CPU = dict(
    counts=torch.randint(0, 9, (37,)), grid=torch.randint(-4, 5, (6, 7)), other=torch.randint(-4, 5, (6, 7)), small=torch.randint(0, 5, (6, 7), dtype=torch.int32), byte=torch.randint(0, 3, (4, 5), dtype=torch.int8),
    zeros=torch.zeros(3), zero=torch.zeros(1), mask=torch.randint(0, 2, (8, 33)).bool(), index=torch.randint(0, 7, (6, 2)), rows=torch.randint(0, 6, (9,)),
    many=torch.randint(-500, 3000, (60000,)), several=torch.randint(-90, 90, (3000,)), reals=torch.randn(300), distinct=torch.arange(12).view(4, 3))

CASES = {
    "compare": lambda t: [t.grid > 1, t.grid <= 1, t.grid == 2, t.grid != 2, t.grid > t.other, t.grid[0] < t.grid[:, :1], 2 > t.grid],
    "max of a list": lambda t: [torch.tensor(int(max(t.counts[i].view(1) for i in range(5))))],
    "fill": lambda t: [torch.full_like(t.grid, 7), torch.ones_like(t.small), torch.full_like(t.mask, True), torch.zeros_like(t.grid)],
    "copy": lambda t: [t.grid.t().contiguous(), t.grid.to(torch.int32), t.small.long(), t.mask.long(), t.mask.to(torch.int8), t.grid.bool(), t.grid.t().int().contiguous(),
                       t.mask.t().contiguous(), t.grid[:, ::2].to(torch.int32)],
    "arithmetic": lambda t: [t.grid + 5, t.grid + t.grid, t.grid * 3, t.grid * t.grid, t.grid - 2, t.small + 1, t.grid[:, :1] + t.grid],
    "bits": lambda t: [t.mask & (t.mask == t.mask[:1]), ~t.mask, t.mask | t.mask, ~t.grid, t.grid & 3, torch.logical_not(t.grid)],
    "where": lambda t: [torch.where(t.grid > 0, t.grid, -t.grid.abs() * 0), torch.where(t.grid > 0, t.grid, 9)],
    "sum": lambda t: [t.grid.sum(), t.grid.sum(0), t.grid.sum(1), t.mask.sum(0), t.mask.sum(), t.small.sum(dim=0), t.mask.long().t().contiguous().sum(dim=(0, 1)),
                      t.mask.view(2, 4, 33).sum(dim=(0, 2)), t.mask.sum(0, dtype=torch.int32)],
    "extremes": lambda t: [t.grid.max(), t.grid.min(), t.counts.max(), t.small.amax(0), *torch.aminmax(t.grid), t.grid.amax(1)],
    "any, all": lambda t: [t.mask.any(), t.mask.all(), t.mask.any(0), (t.grid < 9).all(), (t.grid == 77).any()],
    "nonzero": lambda t: [t.counts.nonzero(), t.mask.view(-1).nonzero(), t.mask.nonzero(), t.grid[t.grid > 0], torch.masked_select(t.grid, t.grid > 0), t.byte.view(2, 2, 5).nonzero()],
    "one hot": lambda t: [torch.nn.functional.one_hot(t.index, 7), torch.zeros(6, 7, dtype=torch.int32, device=t.index.device).scatter(1, t.index, 1).bool()],
    "scan": lambda t: [torch.cumsum(t.counts, 0), torch.cumsum(t.counts, 0, dtype=torch.int32)],
    "counts": lambda t: [torch.bincount(t.rows, minlength=8)],
    "index": lambda t: [t.grid[t.rows], t.grid[2], t.mask[t.rows]],
    "arange": lambda t: [torch.arange(9, device=t.grid.device), torch.arange(3, 20, 4, device=t.grid.device)],
    "concatenation": lambda t: [torch.cat([t.counts, t.rows]), torch.stack([t.grid[0], t.grid[1]]), torch.cat([t.grid, t.other], 1), torch.cat([t.grid.t(), t.other.t()]),
                                torch.cat([t.byte.view(-1)] * 3), torch.cat([t.grid] * 2), torch.cat([t.mask] * 3, 1)],
    "large": lambda t: [torch.tensor((t.grid.repeat(200, 100) > 0).nonzero().shape), t.grid.repeat(100, 100).sum(), t.grid.repeat(100, 100).max()],
    "floating point": lambda t: [t.zeros.abs(), t.zeros * 3, t.zeros / 3, t.zeros.sqrt(), t.zeros ** 2, t.zeros.clamp(max=1), t.zeros.half(), t.zeros.bfloat16(),
                                 t.zeros.sum(), t.zeros.mean(), t.zeros.max(), t.zeros.amax(), t.zeros.norm(1), t.zeros.cumsum(0), torch.where(t.zeros < 0, t.zeros + 1, t.zeros)],
    "norm of a norm": lambda t: [torch.linalg.vector_norm(t.zero), torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(t.zeros)]))],
    "different": lambda t: [torch.unique(t.counts), *torch.unique(t.counts, return_inverse=True, return_counts=True), *torch.unique(t.small, return_counts=True), torch.unique(t.byte),
                            *torch.unique_consecutive(t.rows, return_inverse=True, return_counts=True), torch.unique(t.many), torch.tensor(torch.unique(t.distinct, dim=0).shape)],
    "sparse": lambda t: [torch.sparse_coo_tensor(t.rows.sort()[0][None], torch.ones_like(t.rows), (7,)).coalesce().indices()],
    "sort": lambda t: [*torch.sort(t.counts, stable=True), *torch.sort(t.counts, stable=True, descending=True), *torch.sort(t.grid, dim=0, stable=True), torch.argsort(t.small[0], stable=True),
                       *torch.sort(t.several, stable=True), *torch.sort(t.many, stable=True), *torch.sort(t.many, stable=True, descending=True), torch.sort(t.reals)[0]],
    "permutation": lambda t: [torch.randperm(n, device=t.grid.device).sort()[0] for n in (9, 5000, 60000)],
    "repeat": lambda t: [torch.tensor(torch.repeat_interleave(t.counts).shape)],
}


MINUS_ONE = -0x407fffff40800000  # twice, as floats


def leave_something():
    """Small blocks that are given out again have what was in them: results that are not written are seen."""
    return [torch.full((n,), MINUS_ONE, device="cuda") for n in (1, 64) for _ in range(64)] and None


class Set:
    def __init__(self, tensors):
        self.__dict__.update(tensors)


cpu, cuda = Set(CPU), Set({name: tensor.cuda() for name, tensor in CPU.items()})
compared = wrong = 0
for name, case in CASES.items():
    leave_something()
    try:
        got = [x.cpu() for x in case(cuda)]
    except Exception as e:
        print("%s: %s: %s" % (name, type(e).__name__, str(e)[:200]))
        wrong += 1
        continue
    for i, (want, have) in enumerate(zip(case(cpu), got)):
        compared += 1
        if want.shape != have.shape or want.dtype != have.dtype or not torch.equal(want, have):
            wrong += 1
            print("%s %d: %s %s, expected %s %s" % (name, i, have.dtype, have.flatten()[:12].tolist(), want.dtype, want.flatten()[:12].tolist()))
print("%d compared, %d wrong" % (compared, wrong))
sys.exit(wrong != 0)
