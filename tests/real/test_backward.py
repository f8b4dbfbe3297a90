"""The names of the backward pass's blocks, against the autograd node that ran at each allocation, as the job itself noted it. No name is
wrong, and almost none is missing."""
import os
import unittest

import backward
import mtr
from harness import JOBS, Case, python

TRUTH = os.path.join(JOBS, "with_nodes.py")
NODE, = [number for number, name in mtr.KINDS.items() if name == "NODE"]
SMALL = "--layers", 2, "--hidden", 256, "--heads", 4, "--vocab", 4096, "--seq", 256, "--steps", 2

# Both nodes of cross_entropy() allocate a gradient of the logits' size; log_softmax() alone makes a large block in the forward pass.
TWO_LOSSES = """
import torch
from torch.nn import functional as F
x = torch.randn(4096, 1024, device="cuda", requires_grad=True)
w = torch.randn(512, 1024, device="cuda", requires_grad=True)
y = torch.randint(0, 1024, (4096,), device="cuda")
def entropy():
    return F.cross_entropy(x * 2, y)
def decay():
    return (w * 3).sum()
def step():
    first = entropy()
    return first + decay()
step().backward()
"""


class BackwardChecks(Case):
    def check(self, script, *arguments, version="2.15", named=0.99, exact=0.99):
        out = os.path.join(self.dir, "nodes")
        self.simulate([python(version), TRUTH, out, os.path.join(JOBS, script), *map(str, arguments)])
        report = self.report()
        entry, = report["ranks"]
        found = backward.compare(entry["trace"], out + ".0")
        self.assertEqual([f[1:4] for f in found if f[0] == "wrong"], [])
        blocks = {kind: count for kind, (count, _) in backward.summary(found).items()}
        self.assertGreater(len(found), 100)
        self.assertGreater(blocks["exact"], exact * len(found), blocks)
        self.assertGreater(blocks["exact"] + blocks["within"], named * len(found), blocks)
        return entry


class Backward(BackwardChecks):
    def test_gpt_by_hand(self):
        self.check("gpt.py", *SMALL, version="2.5", exact=0.95)

    def test_loss_of_two_nodes(self):
        job = os.path.join(self.dir, "two_losses.py")
        with open(job, "w") as f:
            f.write(TWO_LOSSES)
        self.simulate([python(), job])
        rows = [r for r in self.report()["ranks"][0]["peak"]["stacks"] if r["backward_of"]]
        of_loss, = [r for r in rows if "entropy  two_losses.py:8" in r["backward_of"]]
        self.assertEqual((of_loss["blocks"], of_loss["bytes"]), (2, 2 * 4096 * 1024 * 4))
        self.assertEqual([r["backward_of"] for r in rows if "step" in r["backward_of"]], [])

    def test_kept_graph_with_a_line_for_each_operation(self):
        """Nothing is freed between the first two backward passes, and no order could tell."""
        entry = self.check("own_lines.py", named=0.95, exact=0.95)
        self.assertIn(NODE, [kind for *_, kind, _ in self.trace().records()])
        rows = [r["backward_of"] for r in entry["peak"]["stacks"] if r["category"] == "gradients" and r["bytes"] > 1 << 20]
        self.assertTrue(rows)
        self.assertTrue(all(rows), rows)

    def test_nodes_of_many_kinds(self):
        self.check("node_kinds.py", named=0.98, exact=0.9)

    def test_nodes_of_many_kinds_of_an_earlier_version(self):
        self.check("node_kinds.py", version="2.7", named=0.98, exact=0.6)

    def test_llama_of_transformers(self):
        entry = self.check("hf.py", *SMALL, "--kv-heads", 2, "--ffn", 704, "--attention", "eager", exact=0.75)
        gradients = [r for r in entry["peak"]["stacks"] if r["category"] == "gradients"]
        self.assertTrue(any("modeling_llama.py" in (r["backward_of"] or "") for r in gradients), gradients)

    def test_lines_that_look_alike(self):
        self.check("node_loops.py", named=0.75, exact=0.7)

    def test_errors_in_backward_passes(self):
        self.simulate([python(), os.path.join(JOBS, "node_errors.py")], CUDASIM_MEMORY="1GiB")

    def test_nodes_are_not_asked_for(self):
        self.simulate([python(), os.path.join(JOBS, "own_lines.py")], MEMTRACE_NODES=0)
        self.assertNotIn(NODE, [kind for *_, kind, _ in self.trace().records()])


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class EveryJob(BackwardChecks):
    def test_recomputed(self):
        self.check("gpt.py", *SMALL, "--recompute", "full", exact=0.95)

    def test_recurrent(self):
        self.check("lstm.py", named=0.9, exact=0.9)

    def test_experts(self):
        self.check("hf.py", *SMALL, "--kv-heads", 2, "--ffn", 704, "--model", "mixtral", exact=0.8)
