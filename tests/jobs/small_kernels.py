"""Small integer work on the device beside the same on the CPU: what the simulated device computes must be what PyTorch computes,
and it may write nothing else. A kernel's arguments have parts that PyTorch leaves unset, as the stack and the memory were before: every operation begins
on a stack full of one word, in several turns, and with a known word in all memory that is not in use.
Prints a line for each difference, and at the end how many were compared."""
import ctypes
import sys

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten

torch.manual_seed(1)
CPU = dict(
    counts=torch.randint(0, 9, (37,)), grid=torch.randint(-4, 5, (6, 7)), other=torch.randint(-4, 5, (6, 7)), small=torch.randint(0, 5, (6, 7), dtype=torch.int32), byte=torch.randint(0, 3, (4, 5), dtype=torch.int8),
    zeros=torch.zeros(3), zero=torch.zeros(1), mask=torch.randint(0, 2, (8, 33)).bool(), index=torch.randint(0, 7, (6, 2)), rows=torch.randint(0, 6, (9,)),
    many=torch.randint(-500, 3000, (60000,)), several=torch.randint(-90, 90, (3000,)), reals=torch.randn(300), distinct=torch.arange(12).view(4, 3))

CASES = {
    "compare": lambda t: [t.grid > 1, t.grid <= 1, t.grid == 2, t.grid != 2, t.grid > t.other, t.grid[0] < t.grid[:, :1], 2 > t.grid],
    "compare floating point": lambda t: [t.zeros.half() > 1, t.zeros.half() < 0.5, t.zeros.bfloat16() >= -2, t.zeros.bfloat16() != 0, 1 > t.zeros.half(), t.zeros > 0.3, t.zeros.double() < 0.2],
    "max of a list": lambda t: [torch.tensor(int(max(t.counts[i].view(1) for i in range(5))))],
    "fill": lambda t: [torch.full_like(t.grid, 7), torch.ones_like(t.small), torch.full_like(t.mask, True), torch.zeros_like(t.grid)],
    "copy": lambda t: [t.grid.t().contiguous(), t.grid.to(torch.int32), t.small.long(), t.mask.long(), t.mask.to(torch.int8), t.grid.bool(), t.grid.t().int().contiguous(),
                       t.mask.t().contiguous(), t.grid[:, ::2].to(torch.int32)],
    "arithmetic": lambda t: [t.grid + 5, t.grid + t.grid, t.grid * 3, t.grid * t.grid, t.grid - 2, t.small + 1, t.grid[:, :1] + t.grid],
    "overflow": lambda t: [t.grid * (1 << 62), t.grid * 0x123456789abcdef * 77, t.grid + (2 ** 63 - 1), t.small * 0x7fffffff, t.byte * 77, (t.grid * (1 << 61)).sum()],
    "bits": lambda t: [t.mask & (t.mask == t.mask[:1]), ~t.mask, t.mask | t.mask, ~t.grid, t.grid & 3, torch.logical_not(t.grid)],
    "where": lambda t: [torch.where(t.grid > 0, t.grid, -t.grid.abs() * 0), torch.where(t.grid > 0, t.grid, 9)],
    "sum": lambda t: [t.grid.sum(), t.grid.sum(0), t.grid.sum(1), t.mask.sum(0), t.mask.sum(), t.small.sum(dim=0), t.mask.long().t().contiguous().sum(dim=(0, 1)),
                      t.mask.view(2, 4, 33).sum(dim=(0, 2)), t.mask.sum(0, dtype=torch.int32)],
    "extremes": lambda t: [t.grid.max(), t.grid.min(), t.counts.max(), t.small.amax(0), *torch.aminmax(t.grid), t.grid.amax(1)],
    "places of extremes": lambda t: [*t.grid.max(1), *t.grid.min(0), *t.small.max(0), t.grid.argmax(1), t.small.argmin(0), t.mask.long().argmax(1), t.grid.argmax()],
    "one number": lambda t: [t.counts[:1].sum(), t.zero.sum(), t.counts[1:2].max(), t.mask[0, :1].any(), t.mask[0, :1].all(), t.counts[2:3].nonzero(), *torch.aminmax(t.grid[0, :1]),
                             t.grid[3, 3].sum(), t.small[:1, 0].sum(), t.byte[0, 0].sum(), t.small[:1, 0].prod(dtype=torch.int32) * 0],
    "any, all": lambda t: [t.mask.any(), t.mask.all(), t.mask.any(0), (t.grid < 9).all(), (t.grid == 77).any()],
    "nonzero": lambda t: [t.counts.nonzero(), t.mask.view(-1).nonzero(), t.mask.nonzero(), t.grid[t.grid > 0], torch.masked_select(t.grid, t.grid > 0), t.byte.view(2, 2, 5).nonzero()],
    "one hot": lambda t: [torch.nn.functional.one_hot(t.index, 7), torch.zeros(6, 7, dtype=torch.int32, device=t.index.device).scatter(1, t.index, 1).bool()],
    "scan": lambda t: [torch.cumsum(t.counts, 0), torch.cumsum(t.counts, 0, dtype=torch.int32)],
    "scan of rows": lambda t: [t.grid.cumsum(1), t.grid.cumsum(-1, dtype=torch.int32), t.mask.cumsum(1), t.grid.cumsum(0), t.mask.cumsum(0), t.byte.cumsum(1),
                               t.mask.view(2, 4, 33).cumsum(1), t.grid[:0].cumsum(0), t.mask[:, :1].cumsum(0)],
    "counts": lambda t: [torch.bincount(t.rows, minlength=8), torch.bincount(t.rows.int()), torch.bincount(t.rows.to(torch.uint8), minlength=256)],
    "index": lambda t: [t.grid[t.rows], t.grid[2], t.mask[t.rows]],
    "arange": lambda t: [torch.arange(9, device=t.grid.device), torch.arange(3, 20, 4, device=t.grid.device),
                         *(torch.arange(64, device=t.grid.device, dtype=d) for d in (torch.int32, torch.int16, torch.int8, torch.uint8, torch.float, torch.half, torch.double))],
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
    "division": lambda t: [t.grid // 3, t.grid // -2, t.grid % 3, t.grid % -2, t.small % 2, t.counts[:6] // (t.rows[:6] + 1), t.grid % (t.counts[:7] + 1), 17 // (t.counts + 1),
                           torch.div(t.grid, 3, rounding_mode="trunc"), torch.div(t.other, t.counts[:7] + 1, rounding_mode="trunc")],
    "larger and smaller": lambda t: [torch.maximum(t.grid, t.other), torch.minimum(t.grid, t.other), torch.maximum(t.small[0], t.small[1])],
    "product": lambda t: [t.grid.prod(-1), t.grid.prod(0), t.small.prod(1, dtype=torch.int32), t.counts[:4].prod()],
    "selected rows": lambda t: [t.grid.index_select(0, t.rows % 6), t.grid.index_select(1, t.rows), t.counts.index_select(0, t.rows), t.mask.index_select(0, t.rows.int()),
                                t.many.index_select(0, torch.arange(3000, device=t.many.device)), t.grid.t().index_select(0, t.rows)],
    "repetitions": lambda t: [torch.repeat_interleave(t.counts * 0), torch.repeat_interleave(t.counts), torch.repeat_interleave(t.grid[:, 0], t.counts[:6]), torch.repeat_interleave(t.grid, t.counts[:6], 0),
                              torch.repeat_interleave(t.counts.int()), t.rows.repeat_interleave(3)],
    "lengths of images": lambda t: [torch.nn.functional.pad(torch.repeat_interleave(t.counts[:6] * t.rows[:6], t.rows[:6]).cumsum(0, dtype=torch.int32), (1, 0), value=0)],
    "repeat": lambda t: [torch.tensor(torch.repeat_interleave(t.counts).shape)],
}


MINUS_ONE = (-0x407fffff40800000).to_bytes(8, "little", signed=True)  # twice, as floats
STACK = 64 << 10
SMALL = 1 << 20  # larger ones are not filled
WITH_SCRATCH = "_unique2.default", "unique_dim.default"  # a result may take the place of what they had for themselves
LIBC = ctypes.CDLL(None)


class Stack(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint64 * (STACK // 8))]


LIBC.getppid.argtypes = [Stack]  # takes no arguments: these are left on the stack below, where what is called next has its own


def blocks():
    """Of PyTorch's memory, which the host can read and write here: address, size, in use."""
    for segment in torch.cuda.memory_snapshot():
        at = segment["address"]
        for block in segment["blocks"]:
            yield at, block["size"], block["state"] == "active_allocated"
            at += block["size"]


class Unset(TorchDispatchMode):
    """Before each operation: what is unset is `word` on the stack, and MINUS_ONE in memory. After it: nothing but its results is written."""

    def __init__(self, word):
        super().__init__()
        self.stack = Stack((ctypes.c_uint64 * (STACK // 8))(*[word] * (STACK // 8)))
        self.wrong = []

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        used = {}
        for at, size, in_use in blocks():
            if in_use and size <= SMALL:
                used[at] = ctypes.string_at(at, size)
            elif size <= 2 * SMALL:
                ctypes.memmove(at, MINUS_ONE * (size // 8), size)
        LIBC.getppid(self.stack)
        out = function(*arguments, **(keywords or {}))
        if any(a.alias_info and a.alias_info.is_write for a in function._schema.arguments):
            return out
        self.wrong += ["%s writes into its input" % function for at, was in used.items() if ctypes.string_at(at, len(was)) != was]
        for result in tree_flatten(out)[0]:
            if isinstance(result, torch.Tensor) and result.is_cuda and result.layout == torch.strided and function.__name__ not in WITH_SCRATCH:
                self.wrong += self.behind(function, result.untyped_storage(), used)
        return out

    def behind(self, function, storage, used):
        """Up to the end of the block, in units of 512 bytes."""
        if storage.data_ptr() in used or not 0 < storage.nbytes() <= SMALL:
            return []
        rest = -storage.nbytes() % 512 // 8 * 8
        was = ctypes.string_at(storage.data_ptr() + storage.nbytes() + -storage.nbytes() % 8, rest)
        return ["%s writes behind its result" % function] if was != MINUS_ONE * (rest // 8) else []


class Set:
    def __init__(self, tensors):
        self.__dict__.update(tensors)


cpu, cuda = Set(CPU), Set({name: tensor.cuda() for name, tensor in CPU.items()})
other = torch.zeros(64, device="cuda")  # in use: nobody may write here
compared = wrong = 0


def differs(word, name, what):
    global wrong
    wrong += 1
    print("%#x: %s: %s" % (word, name, what))


for word in 0, other.data_ptr(), 0x100000001, 2 ** 64 - 1:
    for name, case in CASES.items():
        unset = Unset(word)
        try:
            with unset:
                got = [x.cpu() for x in case(cuda)]
        except Exception as e:
            differs(word, name, "%s: %s" % (type(e).__name__, str(e)[:200]))
            continue
        for what in unset.wrong:
            differs(word, name, what)
        for i, (want, have) in enumerate(zip(case(cpu), got)):
            compared += 1
            if want.shape != have.shape or want.dtype != have.dtype or not torch.equal(want, have):
                differs(word, name, "%d: %s %s, expected %s %s" % (i, have.dtype, have.flatten()[:12].tolist(), want.dtype, want.flatten()[:12].tolist()))
print("%d compared, %d wrong" % (compared, wrong))
sys.exit(wrong != 0)
