"""Runs a training script and writes which autograd node ran at each allocation: with_nodes.py OUT SCRIPT [ARG...]

OUT.RANK gets, as JSON, one entry for each run of a node on the GPU's autograd thread: PyTorch's own count of allocations before it, the node's name,
and the files and lines of the forward pass that made it, innermost first (anomaly detection's own note, which adds no frame to the forward pass).
"""
import json
import os
import re
import runpy
import sys

import torch

runs, places, numbers = [], [], {}
FRAME = re.compile(r'  File "(.*)", line (\d+), in (.*)\n')


def allocations():
    return torch._C._cuda_memoryStats(torch.cuda.current_device())["allocation"]["all"]["allocated"]


def place_of(node):
    found = []
    for text in reversed(node.metadata.get("traceback_", ())):
        frame = FRAME.match(text)
        if frame:
            found.append((frame[1], int(frame[2]), frame[3]))
    return numbers.setdefault(tuple(found), len(numbers))


def watch(node):
    name, place = node.name(), place_of(node)

    def before(grads):
        runs.append([allocations(), name, place])
    node.register_prehook(before)


def watch_graph(tensors):
    seen, todo = set(), [t.grad_fn for t in tensors if torch.is_tensor(t) and t.grad_fn is not None]
    while todo:
        node = todo.pop()
        if node in seen:
            continue
        seen.add(node)
        watch(node)
        todo += [n for n, _ in node.next_functions if n is not None]


def watch_backward():
    original = torch.autograd.backward

    def backward(tensors, *args, **keys):
        watch_graph(tensors if isinstance(tensors, (list, tuple)) else [tensors])
        runs.append([allocations(), "", -1])
        try:
            return original(tensors, *args, **keys)
        finally:
            runs.append([allocations(), "", -1])
    torch.autograd.backward = backward


if __name__ == "__main__":
    out, script = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    watch_backward()
    with torch.autograd.set_detect_anomaly(True, check_nan=False):
        kept = runpy.run_path(script, run_name="__main__")
    with open(f"{out}.{os.environ.get('RANK', 0)}", "w") as f:
        json.dump({"runs": runs, "places": list(numbers)}, f)
    os._exit(0)
