"""Which passes make nodes of the autograd graph, against PyTorch's own grad_fn of their results."""
import json
import os
import unittest

import mtr
from harness import JOBS, Case, python

NUMBER = {name: number for number, name in mtr.KINDS.items()}
LARGE = 64 << 10  # MEMTRACE_STACK_MIN


NONE, NODES, UNKNOWN = 0, 1, 2  # as `bytes` of the event says it
CERTAIN = {"trained", "without", "inference", "own_without", "behind_a_function"}


class GradMode(Case):
    def check(self, version):
        out = os.path.join(self.dir, "truth.json")
        self.simulate([python(version), os.path.join(JOBS, "grad_modes.py"), out])
        with open(out) as f:
            truth = json.load(f)
        trace, now, seen, changes = self.trace(), {}, {name: [] for name in truth}, 0
        for _, _, size, stack, thread, kind, _ in trace.records():
            if kind == NUMBER["GRAD_MODE"]:
                now[thread] = size
                changes += 1
            elif kind == NUMBER["TENSOR_ALLOC"] and size >= LARGE:
                names = [function for function, *_ in trace.stack(stack) if function in truth]
                if names and not any(function == "backward" for function, *_ in trace.stack(stack)):
                    seen[names[-1]].append(now[thread])
        for name, states in seen.items():
            self.assertGreaterEqual(len(states), 12, name)
            self.assertLessEqual(set(states), {NODES, UNKNOWN, NONE} - {NONE if truth[name] else NODES}, name)
            if name in CERTAIN:
                self.assertEqual(set(states), {NODES if truth[name] else NONE}, name)
        for name in "own_trained", "recomputed", "packed":
            self.assertGreater(seen[name].count(NODES), 0 if name == "packed" else len(seen[name]) / 2, name)
        self.assertLess(changes, 200)

    def test_passes(self):
        self.check("2.15")

    def test_passes_of_an_earlier_version(self):
        self.check("2.5")


if __name__ == "__main__":
    unittest.main()
