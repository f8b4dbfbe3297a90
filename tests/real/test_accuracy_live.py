"""Declared jobs, run now: PyTorch counts the bytes that tests/accuracy/observed.json has, so the rows are still true."""
import json
import os
import sys
import unittest

from harness import ROOT, Case, torchrun

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

    def test_every_rank_of_a_pipeline(self):
        """The last stage is checked by itself, because the worst rank hides it: a schedule's variables and graphs hold inputs of stages there."""
        jobs = {name: job for _, name, job in accuracy_runs.accuracy_jobs()}
        names = ["megatron-pp", "megatron-pp-interleaved"] if os.environ.get("ALL_JOBS") else ["megatron-pp-interleaved"]
        for name in names:
            found = accuracy_runs.simulate(jobs[name], 2, lambda *c: torchrun(2, *c))
            stages = accuracy.estimates_of(jobs[name])["memtrace"]["per_stage"]
            for rank, entry in found.items():
                with self.subTest(job=name, rank=rank):
                    # tensors of one element each, 512 bytes for a block
                    self.assertAlmostEqual(stages[rank]["peak_bytes"], entry["peak_allocated_bytes"], delta=4096)
            self.assertEqual(sorted(found), [0, 1])


if __name__ == "__main__":
    unittest.main()
