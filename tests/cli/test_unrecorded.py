"""A command under which nothing is recorded says so, keeps its status, and points at no trace."""
import os
import subprocess
import sys
import time
import unittest

from harness import MEMTRACE, Case, MiB, environment

JOB = """
import ctypes, sys
pointer = ctypes.c_void_p()
sys.exit(ctypes.CDLL(None).cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(%d)) if sys.argv[1:] else 3)
""" % (64 * MiB)
USES, FAILS = [sys.executable, "-c", JOB, "use"], [sys.executable, "-c", JOB]


class Unrecorded(Case):
    def said(self, *command, status=0, **settings):
        text = self.run_([MEMTRACE, *command], status=status, **settings).stderr
        self.assertNotIn("memtrace report", text)
        return text

    def test_a_command_without_a_gpu(self):
        for command in (["run", "-o", self.traces, "--", "true"], ["simulate", "-o", self.traces, "--", "true"],
                        ["simulate", "-o", self.traces, "--timeout", "60", "--", "true"]):
            with self.subTest(command):
                text = self.said(*command)
                self.assertEqual(len(text.splitlines()), 1)
                self.assertIn("nothing was recorded in %s: " % self.traces, text)
                for word in ("use a GPU", "LD_PRELOAD", "static"):
                    self.assertIn(word, text)
                self.assertEqual(self.said(*command, MEMTRACE_QUIET=1), "" if "--timeout" not in command else text)
        self.assertIn("nothing was recorded in %s" % self.dir, self.said("run", "--", "true"))

    def test_the_reason_if_it_is_known(self):
        self.assertIn("MEMTRACE_DISABLE=1 is set", self.said("run", "--", "true", MEMTRACE_DISABLE=1))
        if os.path.exists("/sbin/ldconfig"):
            self.assertIn("/sbin/ldconfig is a static program", self.said("run", "--", "/sbin/ldconfig", "-p"))
        self.assertIn("status 3", self.said("simulate", "-o", self.traces, "--timeout", "60", "--", *FAILS, status=3))

    def test_the_status_and_the_signal(self):
        self.assertIn("nothing was recorded", self.said("run", "--", *FAILS, status=3))
        self.assertIn("nothing was recorded", self.said("run", "--", "sh", "-c", "kill -9 $$", status=-9))

    def test_ranks_alone(self):
        """Ranks that fail before they use the GPU have no figures, not even those of an earlier job in the same directory."""
        alone = ["simulate", "-o", self.traces, "--world-size", "2", "--ranks", "0,1", "--"]
        text = self.said(*alone, *FAILS, status=3)
        self.assertIn("nothing was recorded", text)
        self.assertIn("memtrace report " + self.traces, self.run_([MEMTRACE, *alone, *USES]).stderr)
        text = self.said(*alone, *FAILS, status=3)
        self.assertEqual(text.count("no trace"), 2)
        self.assertIn("nothing was recorded", text)

    def test_trials(self):
        self.assertIn("nothing was recorded", self.said("simulate", "-o", self.traces, "--until-oom", "n=1:4", "--", "true", "{n}"))

    def test_what_is_recorded_is_not_missed(self):
        for command in (["run", "--"], ["run", "-o", self.traces, "--"]):
            text = self.run_([MEMTRACE, *command, MEMTRACE, "simulate", "--", *USES]).stderr
            self.assertNotIn("nothing was recorded", text)
            self.assertIn("memtrace report", text)

    def test_the_command_meets_no_unknown_child(self):
        """The process that waits for the end is no child of the command, nor in its group, and leaves with it."""
        code = "import os, time\ntry: os.wait()\nexcept ChildProcessError: print('none', flush=True)\ntime.sleep(60)"
        job = subprocess.Popen([MEMTRACE, "run", "--", sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(), cwd=self.dir, start_new_session=True)
        self.assertEqual(job.stdout.readline(), "none\n")
        os.killpg(job.pid, 15)
        began = time.monotonic()
        self.assertIn("nothing was recorded", job.communicate(timeout=30)[1])
        self.assertEqual(job.returncode, -15)
        self.assertLess(time.monotonic() - began, 20)


if __name__ == "__main__":
    unittest.main()
