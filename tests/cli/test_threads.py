"""Traces of many ranks are read by several threads: the analyzer under ThreadSanitizer."""
import os
import subprocess
import unittest

from harness import ROOT, Case

SOURCES = "tests/bench/make_job.c tests/unit/write_training.c tests/unit/write_trace.c".split()


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class Threads(Case):
    def test_no_race(self):
        subprocess.run(["make", "-s", "SAN=thread", "build-thread/memtrace"], cwd=ROOT, check=True)
        maker = os.path.join(self.dir, "make_job")
        subprocess.run(["cc", "-std=gnu17", "-O2", "-Iinclude", "-Itests/unit", *SOURCES, "-o", maker], cwd=ROOT, check=True)
        os.mkdir(self.traces)
        subprocess.run([maker, self.traces, "64", "400"], check=True)
        # without randomized addresses, which this sanitizer's shadow may not have room for
        done = self.run_(["setarch", "-R", os.path.join(ROOT, "build-thread", "memtrace"), "report", self.traces], TSAN_OPTIONS="exitcode=66")
        self.assertIn("rank", done.stdout)
        self.assertNotIn("ThreadSanitizer", done.stderr)


if __name__ == "__main__":
    unittest.main()
