"""The jobs of the tests of exports, and what their tests share: the readers of other people, the files of an export."""
import collections
import contextlib
import csv
import functools
import http.server
import io
import json
import os
import pickle
import socket
import subprocess
import sys
import threading
import unittest

from harness import JOBS, MEMTRACE, ROOT, Case, printed, python, torchrun

JOB = os.path.join(JOBS, "exported.py")


@functools.lru_cache(None)
def readers():
    """The folder of tests/export-env.sh; its packages can be imported afterwards."""
    path = subprocess.run([os.path.join(ROOT, "tests", "export-env.sh")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    sys.path.append(os.path.join(path, "site"))
    return path


@contextlib.contextmanager
def served(folder):
    """The address of a folder that is served on this machine alone."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield "http://127.0.0.1:%d/index.html" % server.server_address[1]
        server.shutdown()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def running_sums(rows):
    """The highest sum of (bytes allocated or freed) for each key."""
    level, most = collections.Counter(), collections.Counter()
    for key, delta in rows:
        level[key] += delta
        most[key] = max(most[key], level[key])
    return most


class Exported(Case):
    """One job for all tests of a class."""
    command, options, settings, status = None, (), {}, 0

    @classmethod
    def setUpClass(cls):
        if not cls.command:
            raise unittest.SkipTest("the tests are in the classes derived from it")
        cls.job = Case("setUp")
        cls.job.setUp()
        cls.addClassCleanup(cls.job.doCleanups)
        done = cls.job.simulate(cls.command(), *cls.options, status=cls.status, **cls.settings)
        cls.said = sorted(printed(done.stdout), key=lambda s: s["rank"])

    def export(self, form, *options, name=None, of=None):
        path = os.path.join(self.dir, name or "out." + form)
        self.run_([MEMTRACE, "export", "--format", form, "-o", path, *options, of or self.job.traces])
        return path

    def of_rank(self, said):
        """The options that choose the rank of what a process printed, and its device."""
        return (("--rank", str(said["rank"])), said["rank"]) if len(self.said) > 1 else ((), 0)

    def own_snapshot(self, said):
        """PyTorch's."""
        return os.path.join(self.job.dir, "own.pickle" + (str(said["rank"]) if said["rank"] >= 0 else ""))

    def snapshots(self, *options):
        """For each process what it printed, its device, our snapshot and PyTorch's own."""
        for said in self.said:
            rank, device = self.of_rank(said)
            with open(self.export("pytorch", *rank, *options), "rb") as f, open(self.own_snapshot(said), "rb") as g:
                yield said, device, pickle.load(f), pickle.load(g)

    def collapsed(self, *options):
        with open(self.export("collapsed", *options)) as f:
            return [(line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1])) for line in f]

    def table(self, name, of, *options):
        """The rows of a table as dictionaries of texts."""
        done = self.run_([MEMTRACE, "export", "--format", "csv", "--table", name, *options, of])
        return list(csv.DictReader(io.StringIO(done.stdout)))

    def report_of(self, path):
        """The report on a file of one process, and its rank with the highest peak."""
        report = json.loads(self.run_([MEMTRACE, "report", "--json", path]).stdout)
        return report, max(report["ranks"], key=lambda r: r["peak"]["allocated_bytes"])


class Expandable(Exported):
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "MEMTRACE_STACK_MIN": "0"}

    @staticmethod
    def command():
        return [python(), JOB, "own.pickle"]


class Pinned(Exported):
    """With the recorder's own settings: small blocks have no stack."""
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,garbage_collection_threshold:0.5,roundup_power2_divisions:[256:1,512:2,>:4],"
                                           "pinned_num_register_threads:8,pinned_max_cached_size_mb:64"}

    @staticmethod
    def command():
        return [python(), JOB, "own.pickle", "pinned"]


class Dying(Exported):
    """The job of `make demo` that runs out of memory, on a card of 12 GiB, and ends by that."""
    options, status = ("--memory", "12GiB", "--gpus", "2"), 1

    @staticmethod
    def command():
        return torchrun(2, os.path.join(JOBS, "dying_snapshot.py"), "own.pickle", os.path.join(ROOT, "examples", "train_gpt2.py"))


class Ddp(Exported):
    options, settings = ("--gpus", "2"), {"MEMTRACE_STACK_MIN": "0"}

    @staticmethod
    def command():
        return torchrun(2, JOB, "own.pickle")
