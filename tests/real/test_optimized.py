"""Which graphs lead to a parameter that an optimizer has, against the graphs of PyTorch themselves."""
import json
import os
import unittest

import mtr
from harness import JOBS, Case, python

NUMBER = {name: number for number, name in mtr.KINDS.items()}
LARGE = 64 << 10  # MEMTRACE_STACK_MIN
NONE, NODES, UNKNOWN, NEEDLESS = range(4)  # as `bytes` of the event says it
GIVEN, USED, REPLACED, UNOWNED, CHANGED, NOT_KNOWN = range(6)
NOT_FOLLOWED = {"behind_a_function", "of_an_input", "recomputed_later", "of_a_changed_part", "handed_on", "of_two_optimizers"}
# Results of functions of several kinds of blocks: those before the first parameter that an optimizer has are needless.
MIXED = {"behind_a_base", "summed"}


class Optimized(Case):
    def check(self, version):
        out = os.path.join(self.dir, "truth.json")
        self.simulate([python(version), os.path.join(JOBS, "optimized.py"), out])
        with open(out) as f:
            truth = json.load(f)
        trace, now, seen, blocks, has, said = self.trace(), {}, {name: [] for name in truth["needed"]}, {}, {}, []
        for _, address, size, stack, thread, kind, _ in trace.records():
            if kind == NUMBER["GRAD_MODE"]:
                now[thread] = size
            elif kind == NUMBER["PARAMETER"]:
                said.append(size)
                if size in (GIVEN, USED):
                    has[address] = blocks[address]
                elif size == REPLACED:
                    del has[address]
            elif kind == NUMBER["TENSOR_ALLOC"]:
                blocks[address] = size
                names = [function for function, *_ in trace.stack(stack) if function in seen]
                if size >= LARGE and names:
                    seen[names[0]].append(now[thread])
        self.assertGreater(said.count(USED), 4 * 12)
        self.assertEqual([said.count(CHANGED), said.count(NOT_KNOWN)], [1, 0])
        self.assertEqual(sum(has.values()), truth["bytes"])
        for name, states in seen.items():
            states = set(states[2:]) if name in {"behind_a_prompt", "of_frozen_layers"} else set(states)
            self.assertTrue(states, name)
            if name in MIXED | NOT_FOLLOWED:
                continue
            self.assertEqual(states, {NODES if truth["needed"][name] else NEEDLESS}, name)
        self.assertLessEqual(seen["of_an_input"].count(NEEDLESS), 2)  # the input itself, which has no node
        self.assertGreater(seen["recomputed_later"].count(NEEDLESS), 0)
        self.assertEqual(set(seen["behind_a_base"]), {NODES})
        self.assertEqual(set(seen["of_a_changed_part"][-12:]), {NODES})
        self.assertLess(seen["handed_on"].count(NEEDLESS), 3)
        self.assertEqual(set(seen["of_two_optimizers"][:20]), {NEEDLESS})
        self.assertEqual(set(seen["of_two_optimizers"][-10:]), {NODES})
        self.assertLess(seen["behind_a_function"].count(NEEDLESS), 12)
        self.assertEqual(set(seen["behind_a_function"][-12:]), {NODES})
        self.assertEqual(set(seen["summed"]), {NODES, NEEDLESS})

    def test_graphs(self):
        self.check("2.15")

    def test_graphs_of_an_earlier_version(self):
        self.check("2.5")

    def test_graphs_of_the_first_version(self):
        self.check("2.0")


if __name__ == "__main__":
    unittest.main()
