"""What an event costs, in ns, as JSON: in the hook (the preload's definition minus PyTorch's own, called in turn under a Python stack of each
depth), in the helper beside it, and under PyTorch's own memory history in the same process. Warm: one event right after the other. Cold: each
after 4 MiB of other data were read, as between the allocations of a job.

hook_cost.py HOOK_COST.so [warm]: only the hook, warm."""
import ctypes
import glob
import json
import os
import statistics
import sys
import time

import torch

NAME = "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE"
DEPTHS = 5, 10, 20, 40
MiB = 1 << 20
COLD_KIB = 4096
before = set(glob.glob("/proc/[0-9]*"))

lib = ctypes.CDLL(sys.argv[1])
lib.hook_cost.restype, lib.hook_cost.argtypes = ctypes.c_double, [ctypes.c_void_p, ctypes.c_long, ctypes.c_int64]
lib.cold_cost.restype, lib.cold_cost.argtypes = None, [ctypes.c_void_p, ctypes.c_long, ctypes.c_int64, ctypes.c_long, ctypes.c_void_p]
lib.touch.restype, lib.touch.argtypes = None, [ctypes.c_long]
own = ctypes.CDLL(os.path.join(os.path.dirname(torch.__file__), "lib", "libc10.so"))
real = ctypes.cast(getattr(own, NAME), ctypes.c_void_p).value
hook = ctypes.cast(getattr(ctypes.CDLL(None), NAME), ctypes.c_void_p).value
assert real != hook, "the preload is not in place"
allocate, free = torch._C._cuda_cudaCachingAllocator_raw_alloc, torch._C._cuda_cudaCachingAllocator_raw_delete
torch.empty(1, device="cuda")
time.sleep(0.2)     # the clock's rate is known after 50 ms


def at(depth, call, *arguments):
    return at(depth - 1, call, *arguments) if depth > 1 else call(*arguments)


def spread(values):
    """The first quartile, the median, the third quartile."""
    return statistics.quantiles(values, n=4)


def warm(depth, size):
    for _ in range(5):
        at(depth, lib.hook_cost, hook, 3000, size)
    return spread([at(depth, lib.hook_cost, hook, 3000, size) - at(depth, lib.hook_cost, real, 3000, size) for _ in range(101)])


def cold(depth, rounds=11, events=100):
    """The first quartile and the median of many events, each as the median of the rounds; reading the clock costs both the same."""
    pair, found = (ctypes.c_double * 2)(), []
    for _ in range(rounds):
        row = []
        for function in (hook, real):
            at(depth, lib.cold_cost, function, events, MiB, COLD_KIB, pair)
            row.append(tuple(pair))
        found.append([ours - theirs for ours, theirs in zip(*row)])
    return [statistics.median(f[k] for f in found) for k in (0, 1)]


def pairs_of_blocks(count):
    began = time.thread_time_ns()
    for _ in range(count):
        free(allocate(MiB, 0))
    return (time.thread_time_ns() - began) / (2 * count)


def cold_blocks(count):
    """One event at a time, each after other data were read; its quartile and median."""
    taken = []
    for _ in range(count):
        lib.touch(COLD_KIB)
        began = time.perf_counter_ns()
        block = allocate(MiB, 0)
        between = time.perf_counter_ns()
        lib.touch(COLD_KIB)
        again = time.perf_counter_ns()
        free(block)
        taken += [between - began, time.perf_counter_ns() - again]
    return spread(taken)[:2]


def with_history(call, *arguments):
    torch.cuda.memory._record_memory_history(max_entries=100_000, stacks="python")
    try:
        return call(*arguments)
    finally:
        torch.cuda.memory._record_memory_history(None)


def history(depth, rounds=11):
    """The cost of PyTorch's memory history with Python stacks, on minus off, for the same blocks; memtrace records both."""
    hot, chilled = [], []
    for _ in range(rounds):
        plain = at(depth, pairs_of_blocks, 500)
        hot.append(with_history(at, depth, pairs_of_blocks, 500) - plain)
        plain = at(depth, cold_blocks, 50)
        chilled.append([a - b for a, b in zip(with_history(at, depth, cold_blocks, 50), plain)])
    return {"warm": spread(hot), "cold": [statistics.median(c[k] for c in chilled) for k in (0, 1)]}


def named(path):
    try:
        with open(path + "/comm") as f:
            return f.read().strip()
    except OSError:
        return ""


def helpers():
    """ns of processor time of the recorder's helper: a thread of this process, or a separate process that started with the trace."""
    tasks = [t for t in glob.glob("/proc/self/task/*") if named(t) == "memtrace"]
    for process in set(glob.glob("/proc/[0-9]*")) - before:
        if named(process) == "memtrace-writer":
            tasks += glob.glob(process + "/task/*")
    total = 0
    for task in tasks:
        with open(task + "/schedstat") as f:
            total += int(f.read().split()[0])
    return total


def settled():
    """The helper's time after it has finished its work."""
    while True:
        taken = helpers()
        time.sleep(0.3)
        if helpers() - taken < 1_000_000:
            return helpers()


def beside(pairs=1_000_000):
    began = settled()
    at(10, lib.hook_cost, hook, pairs, MiB)
    return (settled() - began) / (2 * pairs)


found = {"no stack": warm(1, 512), "warm": {d: warm(d, MiB) for d in DEPTHS}}
if sys.argv[2:] != ["warm"]:
    found.update({"cold": {d: cold(d) for d in DEPTHS}, "helper": beside(), "history": {d: history(d) for d in DEPTHS}})
print(json.dumps(found))
