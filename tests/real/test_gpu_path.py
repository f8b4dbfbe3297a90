"""`make test-gpu` with the simulated device in place of a GPU; and its message without a GPU."""
import os
import subprocess
import sys
import unittest

from harness import ROOT

sys.path.insert(0, os.path.join(ROOT, "tests"))
import gpu  # noqa: E402


class GpuPath(gpu.BothWays):
    on_device = ["simulate"]

    def setUp(self):
        super().setUp()
        kept = gpu.JOBS_BOTH_WAYS
        self.assertEqual(len(kept), 20)
        self.addCleanup(setattr, gpu, "JOBS_BOTH_WAYS", kept)
        small = [(*job, "--layers", "2", "--hidden", "256", "--heads", "4", "--seq", "256") for job in kept]
        gpu.JOBS_BOTH_WAYS = small if os.environ.get("ALL_JOBS") else small[:1]

    @unittest.skipIf(gpu.devices(), "there is a GPU: make test-gpu")
    def test_says_that_it_was_skipped(self):
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "long", "gpu.py")], stdout=subprocess.PIPE, text=True, check=True)
        self.assertIn("test-gpu: skipped, there is no GPU here", done.stdout)
        self.assertRegex(done.stdout, r"0 passed, 0 failed, \d+ skipped")
