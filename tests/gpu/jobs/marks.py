"""What PyTorch, CUDA and NVML say of the device's memory at a named moment of a job; probe.py writes the list."""
import ctypes
import json
import os
import sys

import torch

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from nvml import Nvml  # noqa: E402

MARKS = []
HIGHEST = {"allocated": 0, "reserved": 0}  # over all marks, which reset PyTorch's own peaks
_nvml = []


def _handle():
    """(Nvml, handle) of this process's first device, found by its PCI address, of a MIG instance by its name."""
    if not _nvml:
        nvml, text = Nvml(), ctypes.create_string_buffer(64)
        handle = None
        visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")[0]
        try:
            if visible.startswith("MIG-"):
                handle = nvml.handle(uuid=visible)
            elif ctypes.CDLL("libcuda.so.1").cuDeviceGetPCIBusId(text, 64, 0) == 0:
                handle = nvml.handle(bus_id=text.value.decode())
        except (OSError, AttributeError):
            pass
        _nvml.extend((nvml, handle))
    return _nvml


def device():
    """Bytes in use on the device: by all processes (cudaMemGetInfo, NVML), and by this one if NVML knows it."""
    free, total = torch.cuda.mem_get_info()
    nvml, handle = _handle()
    memory = nvml.memory(handle)
    own = [used for pid, used in nvml.processes(handle) or [] if pid == os.getpid()]
    return {"cuda": total - free, "nvml": memory and memory["used"], "own": own[0] if own else None}


def counters():
    return {"allocated": torch.cuda.memory_allocated(), "reserved": torch.cuda.memory_reserved(),
            "peak": torch.cuda.max_memory_allocated(), "peak_reserved": torch.cuda.max_memory_reserved()}


def highest():
    """PyTorch's peaks of the whole job."""
    HIGHEST["allocated"] = max(HIGHEST["allocated"], torch.cuda.max_memory_allocated())
    HIGHEST["reserved"] = max(HIGHEST["reserved"], torch.cuda.max_memory_reserved())
    return HIGHEST


def begin():
    """The next mark's peak is of what follows."""
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()


def keep_peaks():
    """A job may reset PyTorch's peaks: what they were is kept."""
    reset = torch.cuda.reset_peak_memory_stats

    def kept(*arguments, **keys):
        highest()
        return reset(*arguments, **keys)
    torch.cuda.reset_peak_memory_stats = torch.cuda.memory.reset_peak_memory_stats = kept


def mark(name, text=None):
    torch.cuda.synchronize()
    MARKS.append({"name": name, "text": text, **counters(), "device": device()})
    path = os.environ.get("TEST_GPU_MARKS")
    if path:  # what is known if the process does not live to its end
        with open(path, "a") as f:
            f.write(json.dumps(MARKS[-1]) + "\n")
    begin()


def case(name, call, *arguments):
    """Calls and marks; the call's text is the mark's, or its error."""
    begin()
    try:
        text = call(*arguments)
        text = text if isinstance(text, str) else None
    except Exception as error:  # a GPU or a PyTorch that lacks the operation
        text = "%s: %s" % (type(error).__name__, str(error).strip().splitlines()[0][:160] if str(error).strip() else "")
    mark(name, text)
