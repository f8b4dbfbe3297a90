"""Shared by the tests on real jobs: environments, runs on the simulated device, traces."""
import functools
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import mtr

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILD = os.environ.get("TEST_BUILD", os.path.join(ROOT, "build"))
MEMTRACE = os.path.join(BUILD, "memtrace")
PRELOAD = os.path.join(BUILD, "libmemtrace.so")
SIM = os.path.join(BUILD, "libcudasim.so")
JOBS = os.path.join(ROOT, "tests", "jobs")
GPT2 = os.path.join(ROOT, "examples", "train_gpt2.py")
GiB, MiB = 1 << 30, 1 << 20
# Linux counts what a process held before exec() too, so that the process which starts the command is small.
USED = """import os, sys
pid = os.posix_spawn(sys.argv[1], sys.argv[1:], os.environ, file_actions=[(os.POSIX_SPAWN_OPEN, 1, "/dev/null", os.O_WRONLY, 0)])
_, status, used = os.wait4(pid, 0)
print(used.ru_utime + used.ru_stime, used.ru_maxrss)
sys.exit(os.waitstatus_to_exitcode(status))
"""
sys.path.extend(os.path.join(ROOT, "tests", folder) for folder in ("accuracy", "match", "long", "cli", "real"))


@functools.lru_cache(None)
def python(version="2.15"):
    """The Python of an environment: "2.5", or "2.15/3.12" for another version of Python than the default."""
    return subprocess.run([os.path.join(ROOT, "tests", "python-env.sh"), *version.split("/")], check=True, stdout=subprocess.PIPE,
                          text=True).stdout.strip()


def torchrun(ranks, *command, version="2.15"):
    return [python(version), "-m", "torch.distributed.run", "--nproc-per-node", str(ranks), "--master-port", "0", "--rdzv-backend",
            "c10d", "--rdzv-endpoint", "127.0.0.1:0", *command]


def environment(**settings):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACE_", "CUDASIM_", "PYTORCH_", "RANK", "WORLD_SIZE", "LD_PRELOAD"))}
    env.update({k: str(v) for k, v in settings.items()})
    return env


def gone(pid):
    """Also processes that have ended and whose status was not read yet."""
    try:
        with open("/proc/%d/stat" % pid) as f:
            return f.read().rpartition(")")[2].split()[0] in "ZX"
    except FileNotFoundError:
        return True


def printed(text, key="rank"):
    """The JSON objects that a job printed; two ranks that print at once may share a line."""
    decode = json.JSONDecoder().raw_decode
    return [decode(text, found.start())[0] for found in re.finditer(r'{"%s"' % key, text)]


def add_tests(case, first, more):
    """Adds a test to `case` for each name and row of the tables, which calls its check(name, row); those of `more` run with ALL_JOBS only."""
    for table, skipped in (first, False), (more, not os.environ.get("ALL_JOBS")):
        for name, row in table.items():
            def test(self, name=name, row=row):
                self.check(name, row)
            setattr(case, "test_" + name, unittest.skipIf(skipped, "make test-all")(test))


def alone(tests):
    """Marks a test or a class that runs while no other test does: it measures times of this machine, or takes GiB of its memory or disk."""
    tests.runs_alone = True
    return tests


# PyTorch before 2.15 made a communicator at the first collective of its group; 2.15 makes them all at once, unless this is set.
LAZY_COMMUNICATORS = {"TORCH_DIST_USE_NCCL2": "0"}


class Case(unittest.TestCase):
    """A test with a directory of its own for traces."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="memtrace-test-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        self.traces = os.path.join(self.dir, "traces")

    def run_(self, command, timeout=600, status=0, **settings):
        """Runs COMMAND without changes; returns the finished process."""
        done = subprocess.run(command, env=environment(**settings), cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=timeout)
        if status is not None and done.returncode != status:
            self.fail("%s\nexit status %d, not %d\n%s\n%s" % (" ".join(command), done.returncode, status, done.stdout[-2000:], done.stderr[-4000:]))
        return done

    def used(self, *command):
        """The processor time of `memtrace COMMAND...` in seconds, and the most memory that it holds, in bytes."""
        seconds, kilobytes = self.run_([sys.executable, "-S", "-c", USED, MEMTRACE, *command]).stdout.split()
        return float(seconds), int(kilobytes) << 10

    def most_memory(self, *command):
        return self.used(*command)[1]

    def simulate(self, command, *options, **keys):
        return self.run_([MEMTRACE, "simulate", "-o", self.traces, *options, "--", *command], **keys)

    def paths(self):
        return sorted(glob.glob(os.path.join(self.traces, "*.mtr")))

    def trace(self):
        paths = self.paths()
        self.assertEqual(len(paths), 1, paths)
        return mtr.Trace(paths[0])

    def report(self, *options, status=0):
        return json.loads(self.run_([MEMTRACE, "report", "--json", *options, self.traces], status=status).stdout)

    def ended_report(self):
        """The report once the writer, a process that outlives a job which exits without handlers, is through."""
        for _ in range(100):
            report = self.report() if self.paths() and all(map(mtr.has_header, self.paths())) else None
            if report and report["ranks"][0]["end"] != "running":
                break
            time.sleep(0.1)
        return report

    def text(self, *options):
        return self.run_([MEMTRACE, "report", *options, self.traces], COLUMNS=100).stdout


def table_or_tests(table):
    """For a test file that is run by itself: `--table [DIRECTORY]` prints its table of real jobs, whose traces stay in DIRECTORY; else its tests run."""
    if "--table" not in sys.argv:
        unittest.main()
    elif sys.argv[-1] != "--table":
        table(sys.argv[-1])
    else:
        with tempfile.TemporaryDirectory() as one:
            table(one)
