"""Out-of-memory errors: requested and available bytes equal those in PyTorch's own message."""
import json
import os
import re

from harness import JOBS, MiB, Case, python, torchrun


CAUGHT = """
import torch
for n in (8, 7, 6, 9):
    try:
        torch.empty(n << 30, dtype=torch.uint8, device="cuda")
    except torch.OutOfMemoryError:
        if n == 9:
            raise
"""

FULL = """
import torch
torch.cuda.init()
kept = torch.empty(torch.cuda.mem_get_info()[0] // 2**21 * 2**21 - (12 << 20), dtype=torch.uint8, device="cuda")
torch.empty(6 << 20, dtype=torch.uint8, device="cuda")
"""


class OutOfMemory(Case):
    def oom(self, how, status, **settings):
        done = self.simulate([python(), os.path.join(JOBS, "oom.py"), how], "--memory", "12GiB", status=status, **settings)
        self.said = json.loads(done.stdout)
        self.stderr = done.stderr
        self.entry = self.ended_report()["ranks"][0]
        return self.entry["oom"]

    def check(self, oom):
        said = self.said
        self.assertEqual(oom["requested_bytes"], said["tried"])
        self.assertEqual(oom["allocated_bytes"], said["allocated"])
        self.assertEqual(oom["reserved_bytes"], said["reserved"])
        self.assertEqual(oom["free_bytes"], said["free"])
        # the hole that the job created is the largest free cached block, unless PyTorch returned it to the device first
        self.assertIn(oom["largest_free_bytes"], (0, 96 * MiB))
        self.assertEqual(said["reserved"] - said["allocated"], oom["largest_free_bytes"])
        self.assertIn("Tried to allocate 512.00 MiB", said["message"])
        number, unit = re.search(r"of which ([0-9.]+) ([MG])iB is free", said["message"]).groups()
        self.assertEqual("%.2f" % (oom["free_bytes"] / {"M": 1 << 20, "G": 1 << 30}[unit]), number)

    def test_caught(self):
        ooms = self.oom("caught", 0)
        self.assertEqual(len(ooms), self.said["ooms"])
        self.check(ooms[-1])
        self.assertEqual(self.entry["end"], "exit")
        text = self.text()
        self.assertEqual(text.count("OUT OF MEMORY"), 1)
        self.assertNotIn("failed before", text)

    def test_segment_larger_than_free(self):
        """More is free than was asked for, and less than the segment that PyTorch takes from the device for it, which its message has."""
        stderr = self.simulate([python(), "-c", FULL], "--memory", "2GiB", status=1).stderr
        number, free = re.search(r"Tried to allocate ([0-9.]+) MiB\. .* of which ([0-9.]+) MiB is free", stderr).groups()
        oom = self.report()["ranks"][0]["oom"][0]
        self.assertEqual(oom["requested_bytes"], 6 * MiB)
        self.assertEqual("%.2f" % (oom["segment_bytes"] / MiB), number)
        self.assertEqual("%.2f" % (oom["free_bytes"] / MiB), free)
        self.assertIn("asked 6.0 MiB, for which PyTorch takes a segment of %.1f MiB, free %.1f MiB, largest cached free block 0 B, short by %.1f MiB" % (
            float(number), float(free), float(number) - float(free)), " ".join(self.text().split()))

    def test_caught_before(self):
        """Failures that the job went on from have one line."""
        self.simulate([python(), "-c", CAUGHT], "--memory", "4GiB", status=1, MEMTRACE_QUIET=1)
        text = " ".join(self.text().split())
        self.assertEqual(len(self.report()["ranks"][0]["oom"]), 4)
        self.assertEqual(text.count("OUT OF MEMORY"), 1)
        self.assertIn("asked 9.0 GiB", text)
        self.assertRegex(text, r"earlier 3 requests failed before that one, and the job went on: setup, of up to 8\.0 GiB, ")

    def test_fatal(self):
        # nothing waits longer than 100 ms for the line, which an overloaded machine may therefore lose
        for i in range(3):
            self.traces = os.path.join(self.dir, "traces-%d" % i)
            ooms = self.oom("fatal", 1)
            self.check(ooms[-1])
            self.assertEqual(self.entry["end"], "oom")
            lines = [l for l in self.stderr.splitlines() if l.startswith("memtrace:")]
            self.assertLessEqual(len(lines), 1, lines)
            if lines:
                break
        self.assertEqual(len(lines), 1, lines)
        self.assertIn("out of memory", lines[0])
        self.assertIn("memtrace report", lines[0])
        text = " ".join(self.text().split())
        # 12 GiB less a context of 618 MiB, ten blocks of 300 MiB and sixteen of 512
        self.assertRegex(text, r"^OUT OF MEMORY process .* asked 512\.0 MiB, free 478\.0 MiB, largest cached free block")
        # the line of PyTorch's own traceback
        asked = re.findall(r'File ".*/(oom\.py)", line (\d+)', self.stderr)[-1]
        self.assertRegex(text, r"request .*%s:%s " % asked)
        self.assertRegex(ooms[-1]["requested_by"], r"  %s:%s$" % asked)

    def test_os_exit(self):
        """No handler runs, and no line is expected; the trace still has the failure."""
        ooms = self.oom("os_exit", 3)
        self.check(ooms[-1])
        self.assertEqual(self.entry["end"], "oom")

    def test_expandable_segments(self):
        ooms = self.oom("caught", 0, PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True")
        self.assertEqual(len(ooms), self.said["ooms"])
        for key in ("allocated", "reserved", "free"):
            self.assertEqual(ooms[-1][key + "_bytes"], self.said[key])

    def test_ranks(self):
        """Two ranks die from it; one line is printed."""
        done = self.simulate(torchrun(2, os.path.join(JOBS, "oom.py"), "fatal"), "--memory", "12GiB", "--gpus", "2", status=1)
        lines = [l for l in done.stderr.splitlines() if l.startswith("memtrace:")]
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(self.text(), r"OUT OF MEMORY +rank [01] of 2")

    def test_quiet(self):
        done = self.simulate([python(), os.path.join(JOBS, "oom.py"), "fatal"], "--memory", "12GiB", status=1, MEMTRACE_QUIET=1)
        self.assertNotIn("memtrace:", done.stderr)
