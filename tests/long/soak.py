"""soak.py [EVENTS] [LIVE]: a long recording at its budget's limit: the cost of an event from the beginning to the end, and the contents of the trace.
10^9 events by default, some minutes."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import time

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)
import mtr                                      # noqa: E402
from harness import MEMTRACE, PRELOAD, environment   # noqa: E402
from hooks import build                         # noqa: E402


def soak(folder, events, live, budget="64MiB"):
    shim = build.library(os.path.join(folder, "libc10.so"), "c10.c")
    program = build.compile_(os.path.join(folder, "report"), "report.c", shim, "-Wl,-rpath," + folder, "-lpthread", "-O2")
    traces = os.path.join(folder, "traces")
    began = time.monotonic()
    done = subprocess.run([program, "soak", str(events), str(live)], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env=environment(LD_PRELOAD=PRELOAD, MEMTRACE_DIR=traces, MEMTRACE_BUDGET=budget))
    truth = json.loads(done.stdout)
    path, = glob.glob(os.path.join(traces, "*.mtr"))
    trace = mtr.Trace(path)
    report = json.loads(subprocess.run([MEMTRACE, "report", "--json", path], stdout=subprocess.PIPE, text=True, check=False).stdout)
    rank = report["ranks"][0]
    return {"events": events, "live": live, "seconds": round(time.monotonic() - began, 1), "said": done.stderr.strip(), "lost_events": trace.lost_events,
            "lost_reason": trace.lost_reason, "file_bytes": os.path.getsize(path), "counted": trace.device[0][8] + trace.device[0][9], "ooms": trace.device[0][10],
            "peak": [truth["peak"], trace.device[0][2], rank["peak"]["allocated_bytes"]], "final": [truth["final"], rank["final"]["allocated_bytes"]],
            "reused_records": trace.reused_records, "tenths": truth["tenths"]}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        for key, value in soak(scratch, int(sys.argv[1]) if len(sys.argv) > 1 else 10**9, int(sys.argv[2]) if len(sys.argv) > 2 else 2000).items():
            print("%-15s %s" % (key, value))
