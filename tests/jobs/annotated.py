"""PyTorch's own snapshot with what record_function() said: annotated.py SNAPSHOT step|profiler. Four steps, of two forward and
backward passes and two steps of the optimizer each; prints PyTorch's counter of each named part."""
import contextlib
import json
import sys

import torch
from torch.profiler import profile, record_function, schedule

torch.cuda.memory._record_memory_history(stacks="python", global_record_annotations=True)
peaks = {}


@contextlib.contextmanager
def part(name):
    """A range, and PyTorch's counter while it is open."""
    torch.cuda.reset_peak_memory_stats()
    with record_function(name):
        yield
    peaks[name] = max(peaks.get(name, 0), torch.cuda.max_memory_allocated())


def train(model, optimizer, profiler=None):
    for number in range(4):
        with record_function("step %d" % number) if not profiler else contextlib.nullcontext():
            for _ in range(2):
                inputs = torch.randn(256, 512, device="cuda")
                with part("my forward"):
                    loss = model(inputs).sum()
                loss.backward()
                optimizer.step()
                optimizer.zero_grad()
            with part("scratch"):
                torch.empty(48 << 20, dtype=torch.uint8, device="cuda")
        if profiler:
            profiler.step()


with part("making the model"):
    net = torch.nn.Sequential(*[torch.nn.Linear(512, 512) for _ in range(4)]).cuda()
adam = torch.optim.AdamW(net.parameters())
if sys.argv[2] == "profiler":
    with profile(schedule=schedule(wait=0, warmup=0, active=9)) as running:
        train(net, adam, running)
else:
    train(net, adam)
torch.cuda.memory._dump_snapshot(sys.argv[1])
print(json.dumps({"peak": peaks}))
