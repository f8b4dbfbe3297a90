"""Runs a job and writes what PyTorch counted: probe.py OUT SCRIPT [ARG...]

OUT gets JSON: the allocator's peaks and counts, the blocks in use at the end, the device's memory, the marks, and the error if the job
failed. The process then leaves by os._exit, so that the trace ends at the very state that was written down.
"""
import json
import os
import runpy
import sys
import time
import traceback

began = time.time()
import torch  # noqa: E402

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import marks  # noqa: E402


def blocks():
    found = []
    for segment in torch.cuda.memory_snapshot():
        address = segment["address"]
        for block in segment["blocks"]:
            if block["state"] == "active_allocated":
                found.append([segment["device"], address, block["size"]])
            address += block["size"]
    return found


def truth():
    torch.cuda.synchronize()
    backend = torch.cuda.memory.get_allocator_backend()
    stats = torch.cuda.memory_stats() if backend == "native" else {}
    return {"backend": backend, **marks.highest(), "now": marks.counters(), "device": marks.device(),
            "allocs": stats.get("allocation.all.allocated"), "frees": stats.get("allocation.all.freed"), "ooms": stats.get("num_ooms"),
            "stats": {k: v for k, v in stats.items() if v}, "blocks": blocks() if backend == "native" else []}


def run(script):
    """The job's variables, which keep its tensors alive, and the reason if it failed."""
    try:
        return runpy.run_path(script, run_name="__main__"), None
    except SystemExit as end:
        return None, None if not end.code else "exit status %s" % end.code
    except BaseException as error:  # also of the keyboard: what was counted until then is written
        traceback.print_exc()
        return None, "%s: %s" % (type(error).__name__, str(error).strip()[:400])


if __name__ == "__main__":
    out, script = sys.argv[1:3]
    sys.argv = sys.argv[2:]
    sys.path.insert(0, os.path.dirname(os.path.abspath(script)))
    marks.keep_peaks()
    kept, failure = run(script)
    found = {"error": failure, "torch": torch.__version__, "marks": marks.MARKS, "seconds": round(time.time() - began, 2)}
    try:
        found.update(truth())
    except Exception as error:
        found["error"] = found["error"] or "%s: %s" % (type(error).__name__, str(error)[:400])
    with open(out + ".part", "w") as f:
        json.dump(found, f)
    os.replace(out + ".part", out)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(1 if found["error"] else 0)
