"""Declared jobs, run now: what PyTorch counts is what tests/model/observed.json says, so that the rows are still true."""
import json
import os
import sys
import unittest

from harness import ROOT, Case

sys.path.insert(0, os.path.join(ROOT, "tests"))
import accuracy  # noqa: E402
import accuracy_runs  # noqa: E402


class Live(Case):
    names = ["gpt2-sdpa-short", "llama-sdpa-no-groups", "mixtral-eager", "gpt2-rmsprop-loop"]

    def test_observed_is_reproduced(self):
        with open(accuracy.OBSERVED) as f:
            rows = {row["name"]: row for row in json.load(f)}
        found = accuracy_runs.simulate([rows[name]["job"] for name in self.names], 1, lambda *c: [accuracy_runs.python(), *c])
        for i, name in enumerate(self.names):
            with self.subTest(job=name):
                for key in ("peak_allocated_bytes", "peak_reserved_bytes", "steady_bytes"):
                    self.assertEqual(found[i][key], rows[name][key])


if __name__ == "__main__":
    unittest.main()
