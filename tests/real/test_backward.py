"""The names of the backward pass's blocks, against the autograd node that ran at each allocation, as the job itself noted it. No name is
wrong; those that cannot be told are missing."""
import os
import unittest

import backward
from harness import JOBS, Case, python

TRUTH = os.path.join(JOBS, "with_nodes.py")
SMALL = "--layers", 2, "--hidden", 256, "--heads", 4, "--vocab", 4096, "--seq", 256, "--steps", 2


class BackwardChecks(Case):
    def check(self, script, *arguments, version="2.15", named=0.9, exact=0.15):
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
        self.check("gpt.py", *SMALL, version="2.5", exact=0.4)

    def test_llama_of_transformers(self):
        entry = self.check("hf.py", *SMALL, "--kv-heads", 2, "--ffn", 704, "--attention", "eager")
        gradients = [r for r in entry["peak"]["stacks"] if r["category"] == "gradients"]
        self.assertTrue(any("modeling_llama.py" in (r["backward_of"] or "") for r in gradients), gradients)


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class EveryJob(BackwardChecks):
    def test_recomputed(self):
        self.check("gpt.py", *SMALL, "--recompute", "full", named=0.6)

    def test_recurrent(self):
        self.check("lstm.py", named=0.8)

    def test_experts(self):
        self.check("hf.py", *SMALL, "--kv-heads", 2, "--ffn", 704, "--model", "mixtral")
