"""Causes that the Python source of a job tells, and that the same trace does not tell once the source is another one."""
import os
import time
import unittest

from harness import Case, MiB, python

# 12 layers of 16 MiB for the batch and as many activation functions: their parameters have no optimizer, but ask for gradients.
PROBE = """
import sys, torch, torch.nn as nn

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(*[layer for _ in range(12) for layer in (nn.Linear(1024, 1024), nn.GELU())])
        self.head = nn.Linear(1024, 10)

    def forward(self, x):
        features = self.body(x)
        return self.head(features)

model = Net().cuda()
optimizer = torch.optim.Adam(model.head.parameters())
%s
for _ in range(3):
    model(torch.randn(4096, 1024).cuda()).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""
# Eight calls of the same network, of which the last one is trained.
ROLLOUT = """
import torch, torch.nn as nn
net = nn.Sequential(nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 1024)).cuda()
optimizer = torch.optim.Adam(net.parameters())
for _ in range(3):
    state = torch.randn(4096, 1024).cuda()
    for _ in range(7):
        state = net(state)
    net(state).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


class Source(Case):
    def cause(self):
        """The cause, and how much of what it names was live at the failure."""
        finding = next(f for f in self.report()["findings"] if f["cause"])
        return finding["rule"], finding["evidence"]

    def run_job(self, text, memory, **keys):
        self.script = os.path.join(self.dir, "train.py")
        with open(self.script, "w", encoding="utf-8") as f:
            f.write(text)
        old = time.time() - 60
        os.utime(self.script, (old, old))
        self.simulate([python(), self.script], "--memory", memory, status=1, MEMTRACE_QUIET=1, **keys)

    def change(self):
        os.utime(self.script)

    def test_a_part_that_no_optimizer_has(self):
        """The job dies behind ten blocks of 16 MiB: the card has 618 MiB of context, 50 MiB of parameters and 160 of activations."""
        for nodes, evidence_of in (0, "unoptimized"), (1, "needless"):  # without the preload's records, the source tells it
            self.run_job(PROBE % "", "880MiB", MEMTRACE_NODES=nodes)
            rule, evidence = self.cause()
            self.assertEqual(rule, "UNOPTIMIZED_GRAPH")
            self.assertGreater(evidence[evidence_of], 100 * MiB)
            self.assertEqual(evidence[evidence_of] % (16 * MiB), 0)
            self.change()
            self.assertEqual(self.cause()[0], "UNOPTIMIZED_GRAPH" if nodes else "ACT_PEAK")

    def test_a_part_that_is_frozen(self):
        """It keeps nothing: the same card is large enough."""
        text = PROBE % "model.body.requires_grad_(False)"
        with open(os.path.join(self.dir, "train.py"), "w", encoding="utf-8") as f:
            f.write(text)
        self.simulate([python(), os.path.join(self.dir, "train.py")], "--memory", "880MiB", MEMTRACE_QUIET=1)

    def test_calls_that_feed_one_another(self):
        self.run_job(ROLLOUT, "860MiB")
        rule, evidence = self.cause()
        self.assertEqual(rule, "UNROLLED_GRAPH")
        self.assertGreater(evidence["unrolled_calls"], 1)
        self.change()
        self.assertNotEqual(self.cause()[0], "UNROLLED_GRAPH")


if __name__ == "__main__":
    unittest.main()
