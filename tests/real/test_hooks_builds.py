"""PyTorch and other libraries that are built or loaded in unusual ways: the recorded part, and the report's message about the rest."""
import os
import unittest

from harness import BUILD, PRELOAD, SIM, MiB, mtr
from hooks import build
from test_hooks_device import Programs


class Monolith(Programs):
    """PyTorch's allocator in a library with another name."""

    def run_monolith(self, *options):
        library = build.library(os.path.join(self.dir, "libtorch.so"), "monolith.c", "-DLIBRARY", "-fvisibility=default", *options, SIM)
        self.run_program(self.program("monolith", library, "-Wl,-rpath," + self.dir), preloads=[PRELOAD, SIM])
        return self.report()["ranks"][0]

    def test_reports_that_cannot_be_seen(self):
        rank = self.run_monolith()
        self.assertEqual(rank["counted_from"], "cudaMallocAsync")
        self.assertEqual(rank["peak"]["allocated_bytes"], 20 * MiB)  # the segment represents its blocks
        self.assertEqual(rank["peak"]["by_owner"]["pytorch"], 20 * MiB)
        self.assertEqual([w for w in rank["warnings"] if "static or monolithic" in w], rank["warnings"])
        self.assertEqual(len(rank["warnings"]), 1)

    def test_reports_that_are_seen(self):
        rank = self.run_monolith("-DREPORTS")
        self.assertEqual(rank["peak"]["allocated_bytes"], 12 * MiB)
        self.assertEqual(rank["peak"]["by_owner"]["pytorch"], 20 * MiB)
        self.assertEqual(rank["peak"]["by_owner"].get("application", 0), 0)
        self.assertEqual(rank["warnings"], [])


class Deepbind(Programs):
    def test_named(self):
        """Its calls cannot be recorded without changing its bindings: the report names it."""
        library = build.library(os.path.join(self.dir, "libplugin.so"), "owner.c", SIM, "-ldl", "-Wl,-rpath," + os.path.join(BUILD, "cudasim"))
        program = self.program("deepbind")
        self.run_program(program, library)
        self.assertEqual([mtr.KINDS[r[5]] for r in self.trace().records()].count("DEVICE_ALLOC"), 1)
        warning, = self.report()["ranks"][0]["warnings"]
        self.assertRegex(warning, r"^libplugin.so \(cudaMalloc\): calls of CUDA from here go past memtrace \(opened with RTLD_DEEPBIND\)")

    def test_nothing_is_said_of_others(self):
        library = build.library(os.path.join(self.dir, "libplugin.so"), "owner.c", SIM, "-ldl")
        self.run_program(self.program("owners"), library)
        self.assertEqual(self.report()["ranks"][0]["warnings"], [])


class Rocm(Programs):
    """No CUDA at all: PyTorch's reports are recorded, and nothing is known about the device."""

    def test_reports_without_cuda(self):
        c10 = build.library(os.path.join(self.dir, "libc10.so"), "rocm.c", "-DC10", "-fvisibility=default")
        hip = build.library(os.path.join(self.dir, "libc10_hip.so"), "rocm.c", "-DHIP", "-fvisibility=default", c10)
        program = build.compile_(os.path.join(self.dir, "program"), "rocm.c", hip, c10, "-Wl,-rpath," + self.dir)
        self.run_program(program, preloads=[PRELOAD])
        trace = self.trace()
        kinds = [mtr.KINDS[r[5]] for r in trace.records()]
        self.assertEqual({k: kinds.count(k) for k in set(kinds)}, {"TENSOR_ALLOC": 1000, "TENSOR_FREE": 1000, "RESERVED": 5})
        rank = self.report()["ranks"][0]
        self.assertEqual((rank["peak"]["allocated_bytes"], rank["peak"]["reserved_bytes"]), (100 * MiB, 100 * MiB))
        self.assertEqual((rank["tensor_allocs"], rank["tensor_frees"], rank["final"]["blocks"]), (1000, 1000, 0))
        self.assertEqual((rank["device_memory_bytes"], rank["gpu"], rank["gpu_uuid"]), (None, None, None))
        self.assertIn("100.0 MiB in tensors", self.text())


if __name__ == "__main__":
    unittest.main()
