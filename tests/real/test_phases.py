"""Steps and phases, which memtrace finds without marks, against marks that the job sets: every step, and every allocation between marks."""
import bisect
import os
import unittest

from test_category import SMALL, Checks

STACK_MIN = 64 << 10


def steps_and_spans(marks):
    """(from, to, step, phase) of allocations, for each interval between two adjacent marks; and the number of steps"""
    spans, step, backward = [], 1, False
    for mark, after in zip(marks, marks[1:] + [{"kind": "", "allocations": 0}]):
        phase, _, what = mark["kind"].partition(" ")
        if what == "begin" and after["kind"] == phase + " end":
            spans.append((mark["allocations"], after["allocations"], step, phase))
        backward |= mark["kind"] == "backward end"
        if mark["kind"] == "optimizer end" and backward:
            step, backward = step + 1, False
    return spans, step - 1


class PhaseChecks(Checks):
    def check_phases(self, script, *arguments, most=0, **keys):
        """`most`: number of blocks without a stack that may get the phase of their neighbours"""
        for entry, blocks, written in self.run_job(script, *arguments, **keys):
            spans, steps = steps_and_spans(written["marks"])
            starts = [s[0] for s in entry["phase_starts"]]
            wrong, seen = [], set()
            for first, last, step, phase in spans:
                for block in range(first, last):
                    said = entry["phase_starts"][bisect.bisect(starts, blocks.events[blocks.birth[block]][0] / 1e9) - 1]
                    seen.add(phase)
                    # an evaluation or checkpoint belongs to the step before it
                    right = (step, phase) if phase in ("forward", "backward", "optimizer") else (step - 1, phase)
                    if (said[1], said[2]) != right and (blocks.size(block) >= STACK_MIN or not most):
                        wrong.append((block, blocks.size(block), right, said))
            with self.subTest(rank=entry["rank"]):
                self.assertEqual(wrong[:5], [], "%d wrong" % len(wrong))
                self.assertEqual(entry["steps"][-1]["step"], steps)
                self.assertEqual([s["step"] for s in entry["steps"]], list(range(1, steps + 1)))
                self.assertLessEqual({"forward", "backward", "optimizer"}, seen)
        return entry, seen


class Phases(PhaseChecks):
    def test_everything_in_one_loop(self):
        entry, seen = self.check_phases("phases.py", MEMTRACE_STACK_MIN=0)
        self.assertEqual(seen, {"forward", "backward", "optimizer", "evaluation", "checkpoint"})
        self.assertEqual([(s["forwards"], s["backwards"]) for s in entry["steps"]], [(2, 2)] * 4)

    def test_without_stacks_of_small_blocks(self):
        self.check_phases("phases.py", most=1)


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class EveryJob(PhaseChecks):
    def test_accumulate_and_clip(self):
        self.check_phases("gpt.py", *SMALL, "--accumulate", 4, "--clip", 1, most=1)

    def test_recompute(self):
        self.check_phases("gpt.py", *SMALL, "--recompute", "full", most=1)

    def test_llama(self):
        self.check_phases("llama.py", 4, most=1)

    def test_trainer(self):
        self.check_phases("hf.py", "--loop", "trainer", most=1)

    def test_ddp(self):
        self.check_phases("gpt.py", *SMALL, "--parallel", "ddp", most=1, ranks=2)

    def test_fsdp2(self):
        self.check_phases("gpt.py", *SMALL, "--parallel", "fsdp2", most=1, ranks=2)

    def test_pipeline(self):
        self.check_phases("megatron_gpt.py", *SMALL, "--seq", 512, "--pp", 2, most=1, ranks=2)

    def test_zero(self):
        self.check_phases("deepspeed_gpt.py", *SMALL, "--zero", 2, most=1, ranks=2)


if __name__ == "__main__":
    unittest.main()
