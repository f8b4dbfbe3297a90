"""A job that says where its steps begin and names phases, NVTX's too; prints PyTorch's own peak of each phase. named.py WHERE: steps are marked at
"begin" or "end" of the loop, or "never"."""
import json
import sys

import memtrace
import torch

where = sys.argv[1]
peaks = {}
highest = 0


def reset():
    """PyTorch's counter begins anew; ours does not."""
    global highest
    highest = max(highest, torch.cuda.max_memory_allocated())
    torch.cuda.reset_peak_memory_stats()


class measured(memtrace.phase):
    """The phase, and PyTorch's counter of the same stretch."""

    def __enter__(self):
        reset()
        return super().__enter__()

    def __exit__(self, *why):
        peaks[self.name] = max(peaks.get(self.name, 0), torch.cuda.max_memory_allocated())
        return super().__exit__(*why)


assert memtrace.levels() is None and memtrace.peak() is None and memtrace.trace() is None  # no GPU was used so far
with measured("setup"):
    model = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
    optimizer = torch.optim.AdamW(model.parameters())
memtrace.mark("model ready")
for _ in range(4):
    if where == "begin":
        memtrace.step()
    for _ in range(2):  # the optimizer steps twice in what this job calls a step
        x = torch.randn(256, 512, device="cuda")
        with measured("forward"):
            loss = model(x).sum()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    if where == "end":
        memtrace.step()
reset()
with torch.autograd.profiler.record_function("nobody hears this"):
    torch.empty(1 << 20, device="cuda")
torch.cuda.nvtx.range_push("outer")
with torch.autograd.profiler.emit_nvtx(), torch.autograd.profiler.record_function("my part"):
    del x, loss
    held = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
torch.cuda.nvtx.range_pop()
peaks["outer"] = torch.cuda.max_memory_allocated()
reset()
assert memtrace.flush()
now = memtrace.levels()
assert memtrace.peak(torch.device("cuda")) == memtrace.peak(None) == memtrace.peak(0) > 0
print(json.dumps({"peaks": peaks, "allocated": now.allocated, "reserved": now.reserved, "expected": torch.cuda.memory_allocated(),
                  "expected_reserved": torch.cuda.memory_reserved(), "trace": memtrace.trace(),
                  "peak": memtrace.peak(), "expected_peak": highest}))
