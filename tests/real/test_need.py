"""What a whole step needs, in a job that failed in the loss of its first step, against PyTorch's own peak on a larger card.

test_need.py --table [JOB...] prints the table of docs/validation.md: each job of whole_need.py on a card that is large enough, and on cards with
parts of that memory."""
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import JOBS, MEMTRACE, Case, MiB, environment, python  # noqa: E402

PARTS = 45, 62, 78, 92  # percent of the memory that the job needs

JOB = """
import sys, torch, torch.nn as nn, torch.nn.functional as F
trains, words = sys.argv[1] == "train", 50304
layers = [layer for _ in range(4) for layer in (nn.Linear(256, 256), nn.GELU())]
model = nn.Sequential(nn.Embedding(words, 256), *layers, nn.Linear(256, words)).bfloat16().cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(3):
    tokens = torch.randint(0, words, (4, 512), device="cuda")
    with torch.set_grad_enabled(trains):
        loss = F.cross_entropy(model(tokens).float().view(-1, words), tokens.view(-1))
    if trains:
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("peak", torch.cuda.max_memory_allocated(), flush=True)
"""


LAYERS = """
import sys, torch, torch.nn as nn
batch = int(sys.argv[1])
model = nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(1024, 1024), nn.GELU())]).cuda()
optimizer = torch.optim.AdamW(model.parameters(), fused=True)
for _ in range(3):
    model(torch.randn(batch, 1024).cuda()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("peak", torch.cuda.max_memory_allocated(), flush=True)
"""


FROZEN = """
import sys, torch, torch.nn as nn
encoder = nn.Sequential(*[layer for _ in range(16) for layer in (nn.Linear(1024, 1024), nn.GELU())]).cuda()
head = nn.Linear(1024, 10).cuda()
if sys.argv[1] == "frozen":
    encoder.requires_grad_(False)
optimizer = torch.optim.AdamW(head.parameters(), fused=True)
for _ in range(3):
    features = encoder(torch.randn(8192, 1024).cuda())
    head(features).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print("peak", torch.cuda.max_memory_allocated(), flush=True)
"""


class Need(Case):
    def failed(self, what):
        self.simulate([python(), "-c", JOB, what], "--memory", "1400MiB", status=1, MEMTRACE_QUIET=1)
        rank, = self.report()["ranks"]
        self.assertEqual(rank["end"], "oom")
        return rank

    def test_a_job_that_fails_in_its_first_loss(self):
        rank = self.failed("train")
        need, oom = rank["need"], rank["oom"][-1]
        self.assertEqual((oom["step"], need["source"], need["is_least"]), (1, "predicted", False))
        self.assertEqual(need["moment_bytes"], oom["allocated_bytes"] + oom["requested_bytes"])
        self.assertEqual(need["whole_step_bytes"],
                         need["moment_bytes"] + need["loss_to_come_bytes"] + need["optimizer_states_to_come_bytes"])
        self.assertRegex(" ".join(self.text().split()), r" need about [\d.]+ GiB in tensors for a whole step, which this job did not reach: ")
        again = self.run_([MEMTRACE, "report", "--json", "--whole-need", self.traces])
        said = [int(n) for n in re.findall(r"(?m)^peak (\d+)$", again.stderr)]
        measured = json.loads(again.stdout)["ranks"][0]["need"]
        self.addCleanup(shutil.rmtree, measured["trace"], True)
        self.assertEqual(measured["source"], "simulated")
        self.assertEqual(measured["whole_step_bytes"], max(said))
        self.assertAlmostEqual(need["whole_step_bytes"], max(said), delta=0.01 * max(said))
        # Beside what was there: log_softmax's output and two gradients of 4 x 512 x 50304 fp32 values, in place of the first and what it was made of.
        self.assertAlmostEqual(need["loss_to_come_bytes"], (3 - 2) * 4 * 512 * 50304 * 4, delta=4 * MiB)

    def test_a_job_that_fails_in_its_first_layers(self):
        """What is said of the failure alone is a bound; of the whole job it is what PyTorch's peaks say."""
        def peak(batch):
            self.traces = os.path.join(self.dir, "peak-%d" % batch)
            done = self.simulate([python(), script, str(batch)], "--memory", "16GiB", MEMTRACE_QUIET=1)
            return int(re.search(r"peak (\d+)", done.stdout)[1])

        script = os.path.join(self.dir, "layers.py")
        with open(script, "w") as f:
            f.write(LAYERS)
        os.utime(script, (1e9, 1e9))
        whole, half = peak(16384), peak(8192)
        self.traces = os.path.join(self.dir, "failed")
        self.simulate([python(), script, "16384"], "--memory", "1500MiB", status=1, MEMTRACE_QUIET=1)
        report = self.report()
        need = report["ranks"][0]["need"]
        self.assertEqual((need["source"], need["is_least"], need["optimizer_known"]), ("moment", True, True))
        self.assertEqual(need["whole_step_bytes"], need["moment_bytes"])
        self.assertLessEqual(need["whole_step_bytes"], whole)
        self.assertRegex(" ".join(self.text().split()), r" need at least .* report --whole-need measures it")
        self.assertEqual(self.saving(report)["saving_bound"], "at least")
        self.assertLessEqual(self.saving(report)["saving_bound_bytes"], whole - half)
        again = self.run_([MEMTRACE, "report", "--json", "--whole-need", self.traces])
        measured = json.loads(again.stdout)
        self.addCleanup(shutil.rmtree, measured["ranks"][0]["need"]["trace"], True)
        self.assertEqual(measured["ranks"][0]["need"]["whole_step_bytes"], whole)
        self.assertAlmostEqual(self.saving(measured)["saving_bytes"], whole - half, delta=0.1 * (whole - half))

    def test_what_a_frozen_encoder_saves_of_the_whole_job(self):
        """The report of the failure has a part of the encoder's graph; in the whole job it is what PyTorch's peaks say."""
        def run(form, memory, status=0):
            self.traces = os.path.join(self.dir, form + memory)
            return self.simulate([python(), script, form], "--memory", memory, status=status, MEMTRACE_QUIET=1)

        script = os.path.join(self.dir, "frozen.py")
        with open(script, "w") as f:
            f.write(FROZEN)
        os.utime(script, (1e9, 1e9))
        trained, frozen = (int(re.search(r"peak (\d+)", run(form, "16GiB").stdout)[1]) for form in ("trained", "frozen"))
        run("trained", "1200MiB", 1)
        cause = self.report()["findings"][0]
        self.assertEqual((cause["rule"], cause["remedies"][0]["saving_bound"]), ("UNOPTIMIZED_GRAPH", "at the failure"))
        self.assertLess(cause["remedies"][0]["saving_bound_bytes"], 0.8 * (trained - frozen))
        again = self.run_([MEMTRACE, "report", "--json", "--whole-need", self.traces])
        measured = json.loads(again.stdout)
        self.addCleanup(shutil.rmtree, measured["ranks"][0]["need"]["trace"], True)
        self.assertAlmostEqual(measured["findings"][0]["remedies"][0]["saving_bytes"], trained - frozen, delta=0.1 * (trained - frozen))

    @staticmethod
    def saving(report):
        """Of half the micro-batch."""
        return next(r for f in report["findings"] for r in f["remedies"] if r["action"].startswith("half the micro-batch"))

    def test_evaluation_has_no_backward_pass(self):
        self.assertIsNone(self.failed("evaluate")["need"])
        self.assertNotIn("whole step", self.text())

    def test_a_job_that_did_not_fail(self):
        self.simulate([python(), "-c", "import torch; torch.zeros(1000, device='cuda')"], MEMTRACE_QUIET=1)
        self.assertIn("did not run out of memory", self.run_([MEMTRACE, "report", "--whole-need", self.traces], status=2).stderr)


def run(name, directory, memory=None):
    done = subprocess.run([MEMTRACE, "simulate", "-o", directory, *(["--memory", "%dMiB" % memory] if memory else []), "--", python(),
                           os.path.join(JOBS, "whole_need.py"), name], env=environment(MEMTRACE_QUIET=1, OMP_NUM_THREADS=1), stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True)
    report = subprocess.run([MEMTRACE, "report", "--json", directory], check=True, stdout=subprocess.PIPE, text=True)
    return done, json.loads(report.stdout)["ranks"][0]


def table(names):
    print("| job | PyTorch's peak, MiB | part of the card | failed in | said, MiB | error |\n|---|---|---|---|---|---|")
    for name in names:
        with tempfile.TemporaryDirectory() as directory:
            done, rank = run(name, os.path.join(directory, "whole"))
            peak = int(re.search(r"peak (\d+)", done.stdout)[1])
            outside = rank["peak"]["device_bytes"] - rank["peak"]["reserved_bytes"]
            for part in PARTS:
                _, failed = run(name, os.path.join(directory, str(part)), (outside + peak * part // 100) // MiB)
                need, oom = failed["need"], failed["oom"][-1]
                print("| %s | %.1f | %d %% | step %s, %s | %s | %s |" % (
                    name, peak / MiB, part, oom["step"], oom["part"] or oom["phase"],
                    "%s%.1f" % ("at least " if need["is_least"] else "", need["whole_step_bytes"] / MiB) if need else "nothing",
                    "%+.1f %%" % (100 * need["whole_step_bytes"] / peak - 100) if need else ""), flush=True)


if __name__ == "__main__":
    if "--table" in sys.argv:
        table(sys.argv[sys.argv.index("--table") + 1:] or ["bf16", "trainer", "autocast", "lora", "layers", "classes", "evaluation"])
    else:
        unittest.main()
