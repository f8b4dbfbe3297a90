"""Events that cannot be recorded are counted with their reason, and no figure grows because of them."""
import os
import re
import unittest

from harness import MiB, PRELOAD, SIM, mtr
from hooks import build
from test_hooks_device import LOST_LIMIT, LOST_NO_MEMORY, Programs

CONTEXT = 618 * MiB  # context.def, of an H100


class Losses(Programs):
    def setUp(self):
        super().setUp()
        self.between = (build.fake_device(self.dir),)
        self.no_memory = build.library(os.path.join(self.dir, "no_memory.so"), "no_memory.c", "-ldl")
        self.losses = self.program("losses")

    def lose(self, what, **settings):
        preloads = [self.no_memory, PRELOAD, *self.between, SIM]
        out = self.run_program(self.losses, what, preloads=preloads, **settings)
        trace = self.trace()
        return trace, trace.device[0], int(re.search(r"refused (\d+)", out).group(1))

    def kinds(self, trace):
        return [mtr.KINDS[r[5]] for r in trace.records() if r[5] != mtr.SAMPLE]

    def test_no_live_set(self):
        """At most 128 MiB are live, however many more were allocated and freed."""
        trace, counters, refused = self.lose("churn", NO_MEMORY=1)
        self.assertEqual((trace.lost_events, trace.lost_reason), (10000, LOST_NO_MEMORY))
        self.assertEqual(counters[5], 0)  # `other`: no allocation whose end is unknown
        self.assertLessEqual(counters[7], CONTEXT + 128 * MiB)  # `device_peak`: from the device's own figure
        self.assertGreater(counters[7], CONTEXT)
        self.assertLessEqual(refused, 15)  # 1, 2, 4, ... of 10,000
        rank = self.report()["ranks"][0]
        self.assertLessEqual(rank["peak"]["device_bytes"], CONTEXT + 128 * MiB)
        self.assertRegex(" ".join(rank["warnings"]), r"10000 events were not recorded \(no memory for the live set")
        self.assertRegex(self.text(), r"device up to\s+\S+ MiB;\s+not\s+exact: 10000\s+events are missing")

    def test_closing_line(self):
        done = self.run_([self.losses, "churn"], LD_PRELOAD=" ".join([self.no_memory, PRELOAD, *self.between, SIM]), MEMTRACE_DIR=self.traces,
                         NO_MEMORY=1)
        self.assertRegex(done.stderr, r"memtrace: peak \S+ MiB of device memory, not exact: 10000 events are missing")

    def test_live_set_that_cannot_grow(self):
        """The first table has 4,096 slots, of which at most 7 in 8 are used."""
        trace, counters, refused = self.lose("many", NO_MEMORY=2)
        self.assertEqual(len([k for k in self.kinds(trace) if k == "DEVICE_ALLOC"]), 4095 // 8 * 7)
        self.assertEqual((trace.lost_events, trace.lost_reason), (10000 - 4095 // 8 * 7, LOST_NO_MEMORY))
        self.assertLessEqual(refused, 15)

    def test_no_handles(self):
        trace, counters, _ = self.lose("handles", NO_MEMORY=2)  # the first is for the block
        self.assertEqual(self.kinds(trace), ["DEVICE_ALLOC"])
        self.assertEqual((trace.lost_events, trace.lost_reason), (1000, LOST_NO_MEMORY))
        self.assertEqual(counters[5], MiB)

    def test_nested_calls_count_once(self):
        trace, _, _ = self.lose("nested")
        self.assertEqual((self.kinds(trace), trace.lost_events), (["PHYSICAL_ALLOC"], 0))

    def test_pools(self):
        trace, _, _ = self.lose("pools")
        self.assertEqual((trace.lost_events, trace.lost_reason), (2, LOST_LIMIT))

    def test_a_device_too_many(self):
        trace, _, _ = self.lose("devices")
        self.assertEqual((trace.lost_events, trace.lost_reason), (1, LOST_LIMIT))

    def test_calls_under_one_that_was_left(self):
        trace, _, _ = self.lose("left")
        self.assertEqual(self.kinds(trace), ["DEVICE_ALLOC", "DEVICE_ALLOC"])
        self.assertEqual((trace.lost_events, trace.lost_reason), (2, LOST_LIMIT))  # the first may have been inside

    def test_a_sample_that_was_owed(self):
        """Memory that no call shows, within 10 ms after a sample: PyTorch's next block causes another sample."""
        trace, _, _ = self.lose("sample")
        free = [r[1] for r in trace.records() if r[5] == mtr.SAMPLE]
        self.assertEqual(free[0] - free[-1], 64 * MiB)


if __name__ == "__main__":
    unittest.main()
