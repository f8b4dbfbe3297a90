"""Megatron-core's gated delta nets: the estimate beside what PyTorch counted in the real model on the simulated device, with both rules: Megatron-core's own
(deterministic_mode) and flash-linear-attention's."""
import unittest

from harness import Case, add_tests

import accuracy
import accuracy_runs

FIRST = {"of_flash_linear_attention": "megatron-delta-net-fla-recompute", "of_torch_on_two_ranks": "megatron-delta-net-tp-sp-gate"}
MORE = {"of_torch": "megatron-delta-net"}


class DeltaNets(Case):
    def check(self, name, row):
        job = {label: job for _, label, job in accuracy_runs.accuracy_jobs()}[row]
        found, estimate = accuracy_runs.run(job), accuracy.estimates_of(job)["memtrace"]
        self.assertIsNotNone(found)
        stage = estimate["per_stage"][0]
        # tensors of one element each, 512 bytes for a block
        self.assertAlmostEqual(estimate["total_bytes"], found["peak_allocated_bytes"], delta=8192)
        self.assertAlmostEqual(stage["steady_bytes"], found["steady_bytes"], delta=8192)
        self.assertAlmostEqual(stage["reserved_bytes"] / found["peak_reserved_bytes"], 1, delta=0.01)


add_tests(DeltaNets, FIRST, MORE)

if __name__ == "__main__":
    unittest.main()
