"""Runs drawn jobs, each in a forked child, so that PyTorch and the frameworks are imported once.

Reads lines of JSON {"job", "fault", "seed", "fixed", "env", "out"} and answers each with one line: the child's result, from the file `out`.
"""
import ctypes
import gc
import json
import os
import sys
import time
import traceback
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
LIMIT = 240  # seconds for a job


def note_steps(target, result):
    """Adds the peak after each step, with what is outside of PyTorch then, of a job that has steps."""
    import torch
    step, result["by_step"] = target.step, []

    def noted(i):
        done = step(i)
        free, total = torch.cuda.mem_get_info()
        result["by_step"].append(torch.cuda.max_memory_allocated() + total - free - torch.cuda.memory_reserved())
        return done
    target.step = noted


def ran_out(error):
    """Whether memory ended the job. Of a convolution, cuDNN's plans may fail one by one for want of memory; PyTorch tells the last one's end by this text."""
    return type(error).__name__ == "OutOfMemoryError" or isinstance(error, RuntimeError) and "unable to find an engine to execute" in str(error)


def run(ask, result):
    """Runs the job; what it needed, by PyTorch's own counters."""
    import torch

    from core import made
    torch.manual_seed(ask["seed"])
    target = made(ask["job"], ask["fault"], ask["seed"], ask["fixed"])
    if "MEMTRACE_DISABLE" in ask["env"]:
        note_steps(target, result)
    try:
        target.run()
    except Exception as e:
        result.update({"died": True, "message": str(e)[:300]} if ran_out(e) else {"error": traceback.format_exc()[-1500:]})
        raise
    finally:
        result.update(allocated=torch.cuda.max_memory_allocated(), reserved=torch.cuda.max_memory_reserved())
    free, total = torch.cuda.mem_get_info()
    result.update(outside=total - free - torch.cuda.memory_reserved())


def child(ask):
    """An exception ends the process, as it ends any job, but without the end of Python, which takes longer than the job."""
    os.environ.update(ask["env"])
    for n, name in enumerate((os.devnull, ask["out"] + ".stderr"), 1):
        os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), n)
    result, code = {"died": False}, 0
    try:
        run(ask, result)
    except BaseException:
        if not result["died"]:
            result.setdefault("error", traceback.format_exc()[-1500:])  # the job may have failed while it was made
        traceback.print_exc()
        code = 1
    with open(ask["out"], "w") as f:
        json.dump(result, f)
    sys.stderr.flush()
    ctypes.CDLL(None).exit(code)


def serve(modules):
    import torch
    import torch._dynamo  # noqa: F401, which the first optimizer would import, in seconds

    from core import load
    with mock.patch("torch.cuda.get_device_capability", lambda *_: (9, 0)), mock.patch("torch._C._cuda_getDeviceCount", lambda: 1):
        load(modules)  # some of which ask for the device; a real answer would start CUDA, which no child could use then
    assert not torch.cuda.is_initialized()
    gc.freeze()  # a child's collections touch nothing of this, so that no page is copied for them
    for line in sys.stdin:
        ask = json.loads(line)
        pid = os.fork()
        if not pid:
            return child(ask)
        end = time.monotonic() + LIMIT
        while os.waitpid(pid, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(pid, 9)
            time.sleep(0.02)
        try:
            with open(ask["out"]) as f:
                answer = json.load(f)
        except OSError:
            answer = {"error": "the job ended without a result"}
        print(json.dumps(answer), flush=True)
    os._exit(0)


if __name__ == "__main__":
    serve(sys.argv[1:])
