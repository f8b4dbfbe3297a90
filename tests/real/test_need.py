"""What a whole step needs, in a job that failed in the loss of its first step, against PyTorch's own peak on a larger card."""
import json
import re
import unittest

from harness import MEMTRACE, Case, MiB, python

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
        self.assertEqual(measured["source"], "simulated")
        self.assertEqual(measured["whole_step_bytes"], max(said))
        self.assertAlmostEqual(need["whole_step_bytes"], max(said), delta=0.01 * max(said))
        # Beside what was there: log_softmax's output and two gradients of 4 x 512 x 50304 fp32 values, in place of the first and what it was made of.
        self.assertAlmostEqual(need["loss_to_come_bytes"], (3 - 2) * 4 * 512 * 50304 * 4, delta=4 * MiB)

    def test_evaluation_has_no_backward_pass(self):
        self.assertIsNone(self.failed("evaluate")["need"])
        self.assertNotIn("whole step", self.text())

    def test_a_job_that_did_not_fail(self):
        self.simulate([python(), "-c", "import torch; torch.zeros(1000, device='cuda')"], MEMTRACE_QUIET=1)
        self.assertIn("did not run out of memory", self.run_([MEMTRACE, "report", "--whole-need", self.traces], status=2).stderr)


if __name__ == "__main__":
    unittest.main()
