"""make test-matrix: the same checks under every supported PyTorch and Python; prints a table. matrix.py [VERSION[/PYTHON]...]"""
import os
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import GPT2, JOBS, Case, python  # noqa: E402
from test_truth import Checks  # noqa: E402

PAIRS = ["2.0", "2.1", "2.5", "2.7", "2.11", "2.11/3.10", "2.15", "2.15/3.12", "2.15/3.13"]
# GPT-2 small of document 001, batch 12: allocated bytes at the peak, as recorded when the project began
PEAK = {"2.15": 24746716160}
PEAK_BEFORE = 24801242112
COLUMNS = ["import", "document 001's peak", "to the byte", "expandable", "cudaMallocAsync", "DDP, 2 ranks", "a rank alone", "stacks"]


class One(Checks):
    def runTest(self):
        pass

    def version_of(self):
        done = self.run_([python(self.version), "-c", "import torch, platform; print(torch.__version__, torch.version.cuda, platform.python_version())"])
        return done.stdout.split()

    def document_001(self):
        self.traces = os.path.join(self.dir, "seed")
        done = self.simulate([python(self.version), os.path.join(JOBS, "seed001.py")])
        wanted = PEAK.get(self.version.split("/")[0], PEAK_BEFORE)
        self.assertEqual(done.stdout.split(), ["124373760", str(wanted)])
        self.assertEqual(self.report()["ranks"][0]["peak"]["allocated_bytes"], wanted)

    def fresh(self, name, *arguments, **keys):
        self.traces = os.path.join(self.dir, name)
        return self.check(GPT2, "--batch", 2, *arguments, version=self.version, **keys)

    def alone(self):
        """Its groups with emulated ranks use NCCL and Gloo together; PyTorch 2.0 and 2.1 cannot emulate these."""
        if self.version in ("2.0", "2.1"):
            return "-"
        trace, self.traces = self.traces, os.path.join(self.dir, "alone")
        done = self.simulate([python(self.version), os.path.join(JOBS, "flags.py")], "--ranks", "6", "--world-size", "8")
        self.assertIn("rank 6 [5, 7] [100, 101, 102, 103, 104] [True]", done.stdout)
        self.traces = trace

    def stacks(self):
        trace = self.traces
        self.assertTrue(any("train_gpt2.py" in s["stack"] for s in self.report()["ranks"][0]["peak"]["stacks"]), trace)

    def cells(self):
        yield self.version_of
        yield self.document_001
        yield lambda: self.fresh("plain")
        yield lambda: self.fresh("expandable", PYTORCH_CUDA_ALLOC_CONF="expandable_segments:True") if self.version != "2.0" else "-"
        yield lambda: self.fresh("async", PYTORCH_CUDA_ALLOC_CONF="backend:cudaMallocAsync")
        yield lambda: self.fresh("ddp", ranks=2)
        yield self.alone
        yield self.stacks


def row(pair):
    case = One()
    case.version = pair
    case.setUp()
    cells, failed = [], 0
    for cell in case.cells():
        try:
            answer = cell()
            cells.append(answer if answer == "-" else "yes")
            if isinstance(answer, list) and len(answer) == 3:
                cells[-1] = "%s, CUDA %s, Python %s" % tuple(answer)
        except (AssertionError, subprocess.SubprocessError, OSError, KeyError, TypeError) as e:
            print("%s: %s" % (pair, str(e)[-1500:]), file=sys.stderr)
            cells.append("no")
            failed += 1
    shutil.rmtree(case.dir, True)
    print("| " + " | ".join(cells) + " |", flush=True)
    return failed


if __name__ == "__main__":
    print("| PyTorch | " + " | ".join(COLUMNS[1:]) + " |\n|" + "---|" * len(COLUMNS))
    sys.exit(1 if sum([row(p) for p in sys.argv[1:] or PAIRS]) else 0)
