"""Declared jobs, run now: PyTorch counts the bytes that tests/accuracy/observed.json has, so the rows are still true."""
import json
import os
import sys
import tempfile
import unittest

from harness import ROOT, Case, torchrun

sys.path.insert(0, os.path.join(ROOT, "tests"))
import accuracy  # noqa: E402
import accuracy_runs  # noqa: E402

EVENTS = os.path.join(ROOT, "build", "tests", "unit", "systems", "memtrace_events")


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

    def steps_of(self, job):
        """The estimate's highest level of each step."""
        with tempfile.NamedTemporaryFile("w", suffix=".json") as f:
            json.dump(job, f)
            f.flush()
            lines = self.run_([EVENTS, f.name]).stdout.splitlines()
        level, peaks = 0, {}
        for sign, _, _, step, phase, _, block in map(str.split, lines):
            before, level = level, level + int(sign + block)
            if phase != "initialization":
                peaks[step] = max(peaks.get(step, before), level)
        return list(peaks.values())

    def test_every_step_under_fsdp(self):
        """Megatron-core under PyTorch's fully_shard and under its own FSDP: the first rank's peak of each of three steps; the peak and the steady
        state of the worst rank."""
        jobs = {name: job for _, name, job in accuracy_runs.accuracy_jobs()}
        for name in ("megatron-fsdp2", "megatron-own-fsdp"):
            found = accuracy_runs.simulate(jobs[name], 2, lambda *c: torchrun(2, *c))
            self.assertEqual(sorted(found), [0, 1])
            (stage,) = accuracy.estimates_of(jobs[name])["memtrace"]["per_stage"]
            estimated = [*self.steps_of(jobs[name]), stage["peak_bytes"], stage["steady_bytes"]]
            worst = [max(entry[key] for entry in found.values()) for key in ("peak_allocated_bytes", "steady_bytes")]
            counted = [*found[0]["step_peaks"][1:], *worst]
            self.assertEqual(len(counted), len(estimated))
            for i, (ours, pytorchs) in enumerate(zip(estimated, counted)):
                with self.subTest(job=name, number=i):
                    self.assertLess(abs(ours / pytorchs - 1), 0.001)


if __name__ == "__main__":
    unittest.main()
