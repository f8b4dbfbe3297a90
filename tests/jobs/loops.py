"""Training loops as people write them, each with its own marks: loops.py OUT NAME...

Each NAME runs in a process of its own, forked after the imports. OUT.NAME gets, as JSON, its marks, its tensors by category and its process id.
"""
import json
import os
import sys

import torch
from torch.autograd.graph import saved_tensors_hooks

import loops_others  # noqa: F401
import loops_several  # noqa: F401
import loops_single  # noqa: F401
import with_categories
from loop_parts import LOOPS, m, models

used = []  # a backward pass has taken what was saved there, for good: one that makes a graph of its own keeps it


def unpack(tensor):
    if not torch.is_grad_enabled():
        used.extend([a, with_categories.allocations()] for a in with_categories.addresses([tensor]))
    return tensor


def child(out, name):
    with_categories.modules = lambda: [part for model in models for part in model.modules()]
    for watch in (with_categories.watch_saved, with_categories.watch_backward, with_categories.watch_optimizers):
        watch()
    died = False
    with saved_tensors_hooks(with_categories.pack, unpack):
        try:
            LOOPS[name]()
        except torch.cuda.OutOfMemoryError:
            died = True
            with_categories.mark("optimizer end")
    with open("%s.%s" % (out, name), "w") as f:
        json.dump({"pid": os.getpid(), "loop": m.list, "inputs": m.inputs, "died": died, "marks": with_categories.marks,
                   "saved": with_categories.saved, "used": used}, f)


def main():
    out, *names = sys.argv[1:]
    for name in names or LOOPS:
        pid = os.fork()
        if not pid:
            status = 1
            try:
                child(out, name)
                status = 0
            finally:
                sys.stderr.flush()
                if status:
                    import traceback
                    traceback.print_exc()
                os._exit(status)
        if os.waitpid(pid, 0)[1]:
            print("%s failed" % name, flush=True)


if __name__ == "__main__":
    main()
