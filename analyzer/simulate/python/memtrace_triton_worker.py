"""Runs Triton kernels by Triton's interpreter for memtrace_triton.py: requests come from stdin, answers go to stdout.

A byte that the simulated device does not know may be overwritten, but a kernel that reads one has no known result. Nor has one whose accesses do not fit
its tensors. Some versions of the interpreter are wrong with newer versions of NumPy: then no kernel has a known result.
"""
import importlib.util
import os
import pickle
import signal
import struct
import sys
import tempfile
import time

import numpy
import torch
import triton
from triton.runtime import interpreter

MOST_RUNS = 4096
MOST_SECONDS = 10   # of processor time, for a launch

# A kernel whose result is known: y[i] = 2 x[i] + 1 for i < n, else untouched; half[0] is the number of times that n is halved to 1.
PROBE = """
import triton
import triton.language as tl

@triton.jit
def probe(x, y, half, n, B: tl.constexpr):
    at = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(y + at, tl.load(x + at, mask=at < n, other=0) * 2 + 1, mask=at < n)
    v = tl.load(x + n - 1)
    times = 0
    while v > 1:
        v = v // 2
        times += 1
    tl.store(half, times)
"""


class Unknown(Exception):
    """The result of this launch cannot be known; `always`: nor that of another one."""

    def __init__(self, reason, always=False):
        super().__init__(reason)
        self.always = always


class Bytes:
    """The storages of a request, with what of them is known and what was written."""

    def __init__(self, content, values):
        self.parts = []
        tensors = [(name, v) for name, v in values.items() if v[0] == "tensor"]
        self.names = {v[1]: name for name, v in reversed(tensors)}
        self.widths = {}
        for _, v in tensors:
            self.widths.setdefault(v[1], set()).add(getattr(torch, v[2].split(".")[-1]).itemsize)
        for size, data in content:
            memory = torch.frombuffer(bytearray(data or size) or bytearray(1), dtype=torch.uint8)
            self.parts.append((memory, numpy.full(size, data is not None), numpy.zeros(size, bool)))

    def tensor(self, place, dtype, shape, stride, offset):
        return torch.empty(0, dtype=getattr(torch, dtype.split(".")[-1])).set_(self.parts[place][0].untyped_storage(), offset, shape, stride)

    def touch(self, addresses, mask, width, is_read, is_write):
        addresses = numpy.asarray(addresses).ravel()[numpy.asarray(mask, bool).ravel()].astype(numpy.int64)
        met = 0
        for place, (tensor, known, written) in enumerate(self.parts):
            start = addresses - tensor.data_ptr()
            start = start[(start >= 0) & (start + width <= len(known))]
            met += len(start)
            if len(start) and width not in self.widths[place]:
                raise Unknown("the interpreter takes %d bytes for an element of %s" % (width, self.names[place]))
            places = (start[:, None] + numpy.arange(width)).ravel()
            if is_read and not known[places].all():
                raise Unknown("it reads bytes of %s that the device does not know" % self.names[place])
            if is_write:
                known[places] = written[places] = True
        if met < len(addresses):
            raise Unknown("it goes beyond its tensors")

    def runs(self):
        """The written bytes of each storage, in runs."""
        result = []
        for tensor, _, written in self.parts:
            edges = numpy.flatnonzero(numpy.diff(numpy.concatenate(([0], written.view(numpy.int8), [0]))))
            if len(edges) > 2 * MOST_RUNS:
                raise Unknown("it writes in too many places")
            data = tensor.numpy()
            result.append([(int(a), data[a:b].tobytes()) for a, b in zip(edges[::2], edges[1::2])])
        return result


class Watched:
    """Triton's memory accesses, each noted."""

    def __init__(self, real):
        self.real, self.bytes = real, None

    def __getattr__(self, name):
        return getattr(self.real, name)

    def load(self, addresses, mask, other, dtype):
        self.bytes.touch(addresses, mask, numpy.dtype(dtype).itemsize, True, False)
        return self.real.load(addresses, mask, other, dtype)

    def store(self, addresses, values, mask):
        self.bytes.touch(addresses, mask, numpy.asarray(values).itemsize, False, True)
        return self.real.store(addresses, values, mask)

    def atomic_rmw(self, operation, addresses, values, mask, order):
        self.bytes.touch(addresses, mask, numpy.asarray(values).itemsize, True, True)
        return self.real.atomic_rmw(operation, addresses, values, mask, order)

    def atomic_cas(self, addresses, expected, values, order):
        self.bytes.touch(addresses, numpy.ones(numpy.shape(addresses), bool), numpy.asarray(values).itemsize, True, True)
        return self.real.atomic_cas(addresses, expected, values, order)


def load(folder, text):
    """The module of a kernel: a file, because the interpreter reads the source."""
    path = os.path.join(folder, "kernel_%d.py" % len(os.listdir(folder)))
    with open(path, "w") as f:
        f.write(text)
    spec = importlib.util.spec_from_file_location(os.path.basename(path)[:-3], path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def too_slow(*_):
    raise Unknown("it takes more than %d s" % MOST_SECONDS, always=True)


def answer(watched, folder, modules, request):
    text, name, grid, values, content = request
    if text not in modules:
        modules[text] = load(folder, text)
    watched.bytes = Bytes(content, values)
    keys = {k: watched.bytes.tensor(*v[1:]) if v[0] == "tensor" else v[1] for k, v in values.items()}
    signal.setitimer(signal.ITIMER_PROF, MOST_SECONDS)
    try:
        getattr(modules[text], name)[grid](**keys)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return watched.bytes.runs()


def bytes_of(*numbers):
    return struct.pack("=%di" % len(numbers), *numbers)


def probe_is_right(watched, folder):
    def tensor(place, n):
        return "tensor", place, "torch.int32", (n,), (1,), 0
    values = {"x": tensor(0, 8), "y": tensor(1, 8), "half": tensor(2, 1), "n": ("value", 6), "B": ("value", 4)}
    content = [(32, bytes_of(*range(3, 11))), (32, None), (4, None)]
    try:
        written = answer(watched, folder, {}, (PROBE, "probe", (2,), values, content))
    except Exception:
        return False
    return written == [[], [(0, bytes_of(*range(7, 19, 2)))], [(0, bytes_of(3))]]


def refusal(error):
    """The reason, and whether it holds for all launches. The interpreter wraps what it meets: the first cause counts."""
    while error.__cause__:
        error = error.__cause__
    if isinstance(error, Unknown):
        return str(error), error.always
    return ("%s: %s" % (type(error).__name__, error))[:200], True


def main():
    source, sink = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)       # a kernel may print
    watched = interpreter._interpreter = Watched(interpreter._interpreter)
    modules = {}
    signal.signal(signal.SIGPROF, too_slow)
    with tempfile.TemporaryDirectory() as folder:
        is_right = probe_is_right(watched, folder)
        while True:
            head = source.read(8)
            if len(head) < 8:
                return
            request = pickle.loads(source.read(*struct.unpack("=Q", head)))
            began = time.process_time()
            try:
                if not is_right:
                    raise Unknown("Triton's interpreter %s is wrong with NumPy %s" % (triton.__version__, numpy.__version__), always=True)
                result = None, False, answer(watched, folder, modules, request)
            except Exception as e:
                result = *refusal(e), None
            data = pickle.dumps((*result, time.process_time() - began))
            sink.write(struct.pack("=Q", len(data)) + data)
            sink.flush()


if __name__ == "__main__":
    sys.exit(main())
