"""Which passes make nodes of the autograd graph, against PyTorch's own grad_fn of their results."""
import json
import os
import unittest

import mtr
from harness import JOBS, Case, python

NUMBER = {name: number for number, name in mtr.KINDS.items()}
LARGE = 64 << 10  # MEMTRACE_STACK_MIN


class GradMode(Case):
    def check(self, version):
        out = os.path.join(self.dir, "truth.json")
        self.simulate([python(version), os.path.join(JOBS, "grad_modes.py"), out])
        with open(out) as f:
            truth = json.load(f)
        trace, now, seen = self.trace(), {}, {name: [] for name in truth}
        for _, address, size, stack, thread, kind, _ in trace.records():
            if kind == NUMBER["GRAD_MODE"]:
                now[thread] = size, address
            elif kind == NUMBER["TENSOR_ALLOC"] and size >= LARGE:
                names = [function for function, *_ in trace.stack(stack) if function in truth]
                if names:
                    seen[names[-1]].append(now[thread])
        for name, states in seen.items():
            self.assertGreaterEqual(len(states), 12, name)
            self.assertEqual({made for made, _ in states}, {int(truth[name])}, name)
        self.assertEqual({enabled for _, enabled in seen["of_frozen"]}, {1})
        self.assertEqual({enabled for name in ("without", "inference", "own_without") for _, enabled in seen[name]}, {0})

    def test_passes(self):
        self.check("2.15")

    def test_passes_of_an_earlier_version(self):
        self.check("2.5")


if __name__ == "__main__":
    unittest.main()
