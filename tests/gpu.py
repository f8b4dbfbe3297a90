"""make test-gpu: the checks of tests/real/test_truth.py on a real GPU, and what the device says beside what the trace says.

Without a GPU it says that it was skipped. What it finds belongs into docs/validation.md, with device and versions.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "real"))
from harness import GPT2, MEMTRACE, python  # noqa: E402
from test_truth import Checks  # noqa: E402

USED = """
import json, sys, torch
sys.argv = sys.argv[1:]
import runpy; kept = runpy.run_path(sys.argv[0], run_name="__main__")
torch.cuda.synchronize()
free, total = torch.cuda.mem_get_info()
print(json.dumps(total - free))
"""


class OnTheGpu(Checks):
    simulated = False

    def simulate(self, command, *options, **keys):
        """The same runs, on the device that is there."""
        return self.run_([MEMTRACE, "run", "-o", self.traces, "--", *command], **keys)

    def test_counters(self):
        self.check(GPT2, "--batch", 4, version="active")

    def test_flash_bf16(self):
        self.check(GPT2, "--batch", 4, "--flash", "--dtype", "bfloat16", version="active")

    def test_expandable_segments(self):
        self.check(GPT2, "--batch", 4, version="active", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")

    def test_cuda_malloc_async(self):
        self.check(GPT2, "--batch", 4, version="active", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")

    def test_two_ranks(self):
        if devices() < 2:
            self.skipTest("one device only")
        self.check(GPT2, "--batch", 4, ranks=2, version="active")

    def test_device_total(self):
        """The last level of the device curve against cudaMemGetInfo at the end of the job, within 1 %."""
        done = self.simulate([python("active"), "-c", USED, GPT2, "--batch", "4"])
        used = json.loads(done.stdout.splitlines()[-1])
        last = self.report()["ranks"][0]["timeline"][-1][3]
        self.assertLess(abs(last - used), used / 100)


def devices():
    try:
        done = subprocess.run([python("active"), "-c", "import torch; print(torch.cuda.device_count())"], stdout=subprocess.PIPE, text=True)
        return int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


if __name__ == "__main__":
    if not devices():
        print("test-gpu: skipped, there is no GPU here")
        print("0 passed, 0 failed, %d skipped" % unittest.defaultTestLoader.loadTestsFromTestCase(OnTheGpu).countTestCases())
    else:
        unittest.main(verbosity=2)
