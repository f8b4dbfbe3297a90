"""The preload needs little of the job's stacks; its own thread does what the C library requires of every thread."""
import os
import subprocess
import unittest

from harness import BUILD, PRELOAD, SIM, Case, environment, mtr
from hooks import build


class SmallStack(Case):
    """The first allocation, which starts the recording, on the smallest stack that a thread can have, and on somewhat larger ones."""

    def setUp(self):
        super().setUp()
        self.program = build.compile_(os.path.join(self.dir, "small_stack"), "small_stack.c", SIM, "-Wl,-rpath," + os.path.join(BUILD, "cudasim"), "-lpthread")

    def run_with(self, stack, **settings):
        env = environment(LD_PRELOAD=PRELOAD + ":" + SIM, MEMTRACE_STACK_MIN=0, **settings)
        done = subprocess.run([self.program, str(stack)], env=env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, "done\n"), done.stderr)
        return done.stderr

    def test_recorded(self):
        for stack in (16384, 20480, 24576, 65536):
            with self.subTest(stack):
                traces = os.path.join(self.dir, str(stack))
                # a rank of a job, and a process whose launcher is looked up in /proc
                self.run_with(stack, MEMTRACE_DIR=traces, **({"RANK": 0, "WORLD_SIZE": 2} if stack == 20480 else {}))
                trace = mtr.Trace(os.path.join(traces, os.listdir(traces)[0]))
                blocks = [(mtr.KINDS[r[5]], r[2]) for r in trace.records() if mtr.KINDS[r[5]] in ("DEVICE_ALLOC", "DEVICE_FREE")]
                self.assertEqual(blocks, [("DEVICE_ALLOC", 1 << 20), ("DEVICE_FREE", -(1 << 20))])

    def test_not_recorded(self):
        """No trace can be created, and a setting is wrong: both are reported."""
        for stack in (16384, 65536):
            with self.subTest(stack):
                said = self.run_with(stack, MEMTRACE_DIR="/proc/none", MEMTRACE_BUDGET="many")
                self.assertIn("not recording: no trace can be made", said)
                self.assertIn("MEMTRACE_BUDGET must be", said)


if __name__ == "__main__":
    unittest.main()
