"""PyTorch's memory snapshots of its versions and of all protocols, and large ones. The peaks are sums of the events that the file has."""
import json
import os
import pickle
import sys
import unittest

from harness import JOBS, MEMTRACE, ROOT, Case, alone, printed, python

sys.path.append(os.path.join(ROOT, "tests", "bench"))
import made_snapshots    # noqa: E402

# What job makes: 20 blocks of 4000 bytes more each, 12 MiB, which are freed with every second block, and the 20 blocks again.
LAYERS = sum(4000 * (i + 1) for i in range(20))
PEAK = LAYERS + (12 << 20)


def is_made(version):
    """Is there an environment with this PyTorch already? See tests/python-env.sh."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.exists(os.path.join(cache, "memtrace", "torch-" + version, "complete"))


class Versions(Case):
    def check_version(self, version, protocol):
        done = self.simulate([python(version), os.path.join(JOBS, "snapshots_of.py"), "own.pickle", str(protocol)])
        said = printed(done.stdout, "peak")[0]
        with open(os.path.join(self.dir, "own.pickle"), "rb") as f:
            f_events = pickle.load(f)["device_traces"][0]
        level = most = 0
        for e in f_events:
            level += {"alloc": e["size"], "free_completed": -e["size"]}.get(e["action"], 0)
            most = max(most, level)
        report = json.loads(self.run_([MEMTRACE, "report", "--json", "own.pickle"]).stdout)["ranks"][0]
        self.assertEqual(report["peak"]["allocated_bytes"], most)
        self.assertEqual(most, PEAK)
        self.assertLess(abs(most / said["peak"] - 1), 0.01)
        self.assertEqual(report["peak"]["reserved_bytes"], said["reserved"])
        self.assertEqual(report["final"]["allocated_bytes"], level)
        self.assertTrue(any("layers" in s["stack"] and "snapshots_of.py" in s["stack"] for s in report["peak"]["stacks"]))

    def test_2_0(self):
        self.check_version("2.0", 3)

    def test_2_1(self):
        self.check_version("2.1", 2)

    def test_2_5(self):
        self.check_version("2.5", 5)

    def test_2_7(self):
        self.check_version("2.7", 4)

    @unittest.skipUnless(is_made("2.11") or os.environ.get("ALL_JOBS"), "make test-all")
    def test_2_11(self):
        self.check_version("2.11", 4)

    def test_2_15(self):
        self.check_version("2.15", 4)


class Made(Case):
    def test_protocols(self):
        for protocol in 2, 3, 4, 5:
            path = os.path.join(self.dir, "p%d.pickle" % protocol)
            peak, live = made_snapshots.write(path, 3000, protocol, 100)
            rank = json.loads(self.run_([MEMTRACE, "report", "--json", path]).stdout)["ranks"][0]
            self.assertEqual((rank["peak"]["allocated_bytes"], rank["final"]["allocated_bytes"]), (peak, live), protocol)

    @alone
    def test_600_000_entries(self):
        """Eight times the file's memory at most, and in `make test-all` two seconds of processor time."""
        path = os.path.join(self.dir, "large.pickle")
        peak, live = made_snapshots.write(path, 600_000)
        rank, = json.loads(self.run_([MEMTRACE, "report", "--json", path]).stdout)["ranks"]
        self.assertEqual((rank["peak"]["allocated_bytes"], rank["final"]["allocated_bytes"]), (peak, live))
        seconds, memory = self.used("report", "--json", path)
        self.assertLess(memory, 8 * os.path.getsize(path))
        if os.environ.get("ALL_JOBS"):
            self.assertLess(seconds, 2)


if __name__ == "__main__":
    unittest.main()
