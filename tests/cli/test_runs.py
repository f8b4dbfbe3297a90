"""report --runs: the runs and attempts of a directory, and what --run accepts for each."""
import glob
import json
import os
import shlex
import sys
import unittest

from harness import MEMTRACE, Case, MiB

# Asks the device for each of its arguments in bytes, as a library does, and exits with status 1 if one was refused.
JOB = """
import ctypes, sys
cuda, pointer = ctypes.CDLL(None), ctypes.c_void_p()
sys.exit(any([cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(int(n))) for n in sys.argv[1:]]))
"""

# As Lightning starts a job of two processes on one node: the first one says who it is by itself, and starts the other.
LAUNCHER = """
import os, subprocess, sys
child = None
if "LOCAL_RANK" not in os.environ:
    os.environ.update(NODE_RANK=sys.argv[2], LOCAL_RANK="0", WORLD_SIZE=sys.argv[3])
    child = subprocess.Popen([sys.executable, "-c", *sys.orig_argv[2:]], env=dict(os.environ, LOCAL_RANK="1"))
import ctypes
cuda, pointer = ctypes.CDLL(None), ctypes.c_void_p()
status = cuda.cudaMalloc(ctypes.byref(pointer), ctypes.c_size_t(int(sys.argv[1])))
sys.exit(status or (child and child.wait()))
"""


class Runs(Case):
    def record(self, *sizes, status=0, rank=0, world=1, restart=0, run="first"):
        return self.simulate([sys.executable, "-c", JOB, *map(str, sizes)], "--memory", "4GiB", status=status, RANK=rank, WORLD_SIZE=world,
                             LOCAL_RANK=0, TORCHELASTIC_RUN_ID=run, TORCHELASTIC_RESTART_COUNT=restart)

    def runs(self):
        return json.loads(self.run_([MEMTRACE, "report", "--runs", "--json", self.traces]).stdout)["runs"]

    def test_attempts_of_two_jobs(self):
        self.record(64 * MiB, run="older")
        self.record(64 * MiB, world=2, rank=0)
        self.record(256 * MiB, 8192 * MiB, world=2, rank=1, status=1)
        self.record(96 * MiB, world=2, rank=0, restart=1)
        older, first, second = self.runs()
        self.assertEqual([r["end"] for r in (older, first, second)], ["exit", "oom", "exit"])
        self.assertEqual([r["restart_count"] for r in (older, first, second)], [0, 0, 1])
        self.assertEqual([(r["ranks"], r["world_size"], r["traces"]) for r in (older, first, second)], [(1, 1, 1), (2, 2, 2), (1, 2, 1)])
        self.assertEqual(first["traces_out_of_memory"], 1)
        self.assertEqual(first["peak_device_bytes"] - older["peak_device_bytes"], 192 * MiB)
        self.assertEqual(second["peak_device_bytes"] - older["peak_device_bytes"], 32 * MiB)
        self.assertLess(older["start_time_s"], first["start_time_s"])
        self.assertEqual([r["shown"] for r in (older, first, second)], [False, True, False])
        # What the list proposes for --run chooses that run, and what it calls shown is what a report without --run shows.
        for run in (older, first, second):
            for choice in (["--run", run["choice"]], ["--run", run["run"]]) + ((["--bytes"],) if run["shown"] else ()):
                ranks = self.report(*choice)["ranks"]
                self.assertEqual({"%s:%d" % (r["run_id"], r["restart_count"]) for r in ranks}, {run["run"]}, choice)
        self.assertEqual((first["choice"], second["choice"]), (":0", ":1"))
        self.assertTrue(older["run"].startswith(older["choice"]), older)
        text = self.run_([MEMTRACE, "report", "--runs", self.traces], COLUMNS=120).stdout.splitlines()
        self.assertEqual(len(text), 4)
        self.assertRegex(text[2], r"^--run :0 .* 2 +out of memory \(1 of 2\) .* shown without --run$")
        self.assertRegex(text[3], r"^--run :1 .* 1 of 2 +exited ")

    def test_next_commands(self):
        """The last lines name the run that the report is of, and can be pasted into a shell."""
        self.traces = os.path.join(self.dir, "my traces")
        for rank in 0, 1:
            self.record(64 * MiB, world=2, rank=rank)
        self.record(96 * MiB, run="later")

        def proposed(*options):
            return shlex.split(self.run_([MEMTRACE, "report", *options, self.traces]).stdout.splitlines()[-1])

        run = self.runs()[0]["choice"]
        self.assertEqual(proposed("--run", run), ["next", "memtrace", "html", "--run", run, self.traces])
        later = max(glob.glob(os.path.join(self.traces, "*.mtr")), key=os.path.getmtime)
        self.assertEqual(proposed(), ["next", "memtrace", "html", later])
        self.assertIn("memtrace report '%s'; as a page: memtrace html '%s'\n" % (self.traces, self.traces),
                      self.run_([MEMTRACE, "simulate", "--ranks", "0", "--world-size", "1", "-o", self.traces, "--", sys.executable, "-c", JOB, "1024"]).stderr)

    def test_processes_that_know_their_node_only(self):
        """On the first node that is the rank; on another one the ranks depend on the nodes before it: each process is a run."""
        for node, world, ranks in (0, 2, [0, 1]), (1, 4, [0]):
            self.simulate([sys.executable, "-c", LAUNCHER, str(64 * MiB), str(node), str(world)], "--memory", "4GiB")
            runs = self.runs()
            self.assertEqual([r["rank"] for r in self.report()["ranks"]], ranks)
        self.assertEqual([(r["ranks"], r["traces"]) for r in runs], [(2, 2), (1, 1), (1, 1)])

    def test_a_limit_is_of_every_attempt(self):
        """The first attempt needs 256 MiB, the second, which a report shows, 64: a job that is within its limit never exceeds it."""
        self.record(32 * MiB, run="older")
        context = self.runs()[0]["peak_device_bytes"] - 32 * MiB
        self.record(256 * MiB)
        self.record(64 * MiB, restart=1)
        self.assertEqual(self.report()["ranks"][0]["restart_count"], 1)
        older, first = (self.runs()[n]["run"].split(":")[0] for n in (0, 1))
        limit = str(context + 128 * MiB)
        records = os.path.join(self.dir, "records")
        with open(records, "w", encoding="utf-8") as f:
            f.write(self.run_([MEMTRACE, "summarize", self.traces]).stdout)

        def check(*options, status=0, of=self.traces):
            return self.run_([MEMTRACE, "check", "--max-device", limit, *options, of], status=status)

        for of, options in (self.traces, ()), (self.traces, ("--run", first)), (records, ()):
            done = check("--bytes", *options, status=1, of=of)
            self.assertEqual(done.stdout, "OVER  max-device         %d bytes, at most %s bytes  rank 0, attempt :0  simulated\n" % (context + 256 * MiB, limit))
            rule, = json.loads(check("--json", *options, status=1, of=of).stdout)["rules"]
            self.assertEqual((rule["bytes"], rule["rank"], rule["restart_count"]), (context + 256 * MiB, 0, 0))
            self.assertEqual(done.stderr.count("this is run %s; also here: %s:0 (1 " % (first, older)), 0 if options else 1, done.stderr)
        for run in ":1", first + ":1", older:
            self.assertNotIn("attempt", check("--run", run).stdout)
        # A baseline is the highest of its attempts.
        job, self.traces = self.traces, os.path.join(self.dir, "now")
        self.record(200 * MiB)
        self.assertIn("ok    baseline-device", self.run_([MEMTRACE, "check", "--baseline", job, self.traces]).stdout)

    def test_usage(self):
        self.record(64 * MiB)
        for arguments, said in (((), "needs a trace"), ((self.traces, self.traces), "one directory"), ((self.traces, "--run", ":0"), "leave --run"),
                                ((self.dir,), "there are no traces")):
            self.assertIn(said, self.run_([MEMTRACE, "report", "--runs", *arguments], status=2).stderr)


if __name__ == "__main__":
    unittest.main()
