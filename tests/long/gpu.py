"""make test-gpu: the checks of tests/real/test_truth.py on a real GPU, the device's own figures against the trace, and twenty jobs
on the GPU and on its simulation.

Without a GPU it prints that it was skipped. Results belong into docs/validation.md, with device and versions.
"""
import json
import os
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import GPT2, JOBS, MEMTRACE, Case, python  # noqa: E402
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
        """The same runs, on the real device."""
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


# Twenty jobs of tests/jobs, one process each.
GPT, HF = ("gpt.py", "--micro-batch", "4"), ("hf.py", "--micro-batch", "2", "--seq", "1024")
JOBS_BOTH_WAYS = [
    (*GPT,), (*GPT, "--attention", "eager"), (*GPT, "--dtype", "fp16", "--scaler", "--clip", "1"), (*GPT, "--dtype", "fp32"),
    (*GPT, "--dtype", "bf16_pure"), (*GPT, "--recompute", "full"), (*GPT, "--recompute", "selective"), (*GPT, "--accumulate", "4"),
    (*GPT, "--optimizer", "sgd_momentum"), (*GPT, "--optimizer", "adamw_foreach"), (*GPT, "--optimizer", "adamw_loop"),
    (*GPT, "--layers", "24", "--hidden", "1024", "--heads", "16"), (*GPT, "--compile"), (*GPT, "--graphs", "--dtype", "bf16_pure"),
    (*HF,), (*HF, "--model", "qwen2"), (*HF, "--model", "gpt2"), (*HF, "--lora", "8"), (*HF, "--loop", "trainer"),
    (*HF, "--recompute", "full", "--layers", "8"),
]
# If the simulated device does not know the GPU's name, it simulates its memory size.
NAME_AND_MEMORY = "import torch; print(torch.cuda.get_device_name()); print(torch.cuda.get_device_properties(0).total_memory)"


class BothWays(Case):
    """Peaks of the same job on the GPU and simulated: allocated within 0.1 %, reserved within 2 %."""
    on_device = ["run"]

    def peaks(self, way, job, *options):
        self.traces = os.path.join(self.dir, way[0])
        command = [python("active"), "-W", "ignore", os.path.join(JOBS, job[0]), *job[1:]]
        done = self.run_([MEMTRACE, *way, "-o", self.traces, *options, "--", *command])
        line = json.loads([x for x in done.stdout.splitlines() if x.startswith('{"rank"')][-1])
        return line["max_memory_allocated"], line["max_memory_reserved"]

    def options(self):
        name, memory = self.run_([MEMTRACE, *self.on_device, "-o", self.traces, "--", python("active"), "-c", NAME_AND_MEMORY]).stdout.splitlines()
        known = self.run_([MEMTRACE, "simulate", "--gpu", name, "--", "true"], status=None).returncode == 0
        return ["--memory", memory, *(["--gpu", name] if known else [])]

    def test_twenty_jobs(self):
        options = self.options()
        for job in JOBS_BOTH_WAYS:
            with self.subTest(job=" ".join(job)):
                real, simulated = self.peaks(self.on_device, job), self.peaks(["simulate"], job, *options)
                print("%-60s allocated %13d %13d  reserved %13d %13d" % (" ".join(job), real[0], simulated[0], real[1], simulated[1]), flush=True)
                self.assertLess(abs(simulated[0] / real[0] - 1), 0.001)
                self.assertLess(abs(simulated[1] / real[1] - 1), 0.02)


def devices():
    try:
        done = subprocess.run([python("active"), "-c", "import torch; print(torch.cuda.device_count())"], stdout=subprocess.PIPE, text=True)
        return int(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError):
        return 0


if __name__ == "__main__":
    if not devices():
        print("test-gpu: skipped, there is no GPU here")
        print("0 passed, 0 failed, %d skipped" % unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"]).countTestCases())
    else:
        unittest.main(verbosity=2)
