"""PyTorch and other libraries that are built or loaded in unusual ways: what is seen of them, and that the report says what is not."""
import os
import unittest

from harness import PRELOAD, SIM, MiB
from hooks import build
from test_hooks_device import Programs


class Monolith(Programs):
    """PyTorch's allocator in a library of another name."""

    def run_monolith(self, *options):
        library = build.library(os.path.join(self.dir, "libtorch.so"), "monolith.c", "-DLIBRARY", "-fvisibility=default", *options, SIM)
        self.run_program(self.program("monolith", library, "-Wl,-rpath," + self.dir), preloads=[PRELOAD, SIM])
        return self.report()["ranks"][0]

    def test_reports_that_cannot_be_seen(self):
        rank = self.run_monolith()
        self.assertEqual(rank["counted_from"], "cudaMallocAsync")
        self.assertEqual(rank["peak"]["allocated_bytes"], 20 * MiB)  # the segment stands for its blocks
        self.assertEqual(rank["peak"]["by_owner"]["pytorch"], 20 * MiB)
        self.assertEqual([w for w in rank["warnings"] if "static or monolithic" in w], rank["warnings"])
        self.assertEqual(len(rank["warnings"]), 1)

    def test_reports_that_are_seen(self):
        rank = self.run_monolith("-DREPORTS")
        self.assertEqual(rank["peak"]["allocated_bytes"], 12 * MiB)
        self.assertEqual(rank["peak"]["by_owner"]["pytorch"], 20 * MiB)
        self.assertEqual(rank["peak"]["by_owner"].get("application", 0), 0)
        self.assertEqual(rank["warnings"], [])


if __name__ == "__main__":
    unittest.main()
