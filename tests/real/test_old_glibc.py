"""The programs built here run on old systems: in roots made by debootstrap, each with its own loader, C library and Python.

A root takes a minute and 250 MiB, once, in ~/.cache/memtrace/roots; it needs root, debootstrap, and the distribution's keys in
/usr/share/keyrings or in that folder."""
import collections
import json
import os
import shutil
import subprocess
import tempfile
import unittest

from harness import BUILD, MEMTRACE, ROOT, environment, mtr
from hooks import build

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "memtrace", "roots")
PACKAGES = "python3-minimal,libpython3-stdlib,libjansson4,libyaml-0-2"
PYTHON_JOB = """
import ctypes
cuda = ctypes.CDLL("libcuda.so.1")
context, block = ctypes.c_void_p(), ctypes.c_uint64()
def allocate():
    assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(3 << 20)) == 0
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
for i in range(5):
    allocate()
print("done")
"""
BLOCK = 2 << 20


def make_root(name, suite, mirror, keyring):
    """The root's path; SkipTest with the reason if it is not available."""
    path = os.path.join(CACHE, name)
    if os.path.exists(os.path.join(path, "complete")):
        return path
    keys = [k for k in (os.path.join(d, keyring) for d in ("/usr/share/keyrings", CACHE)) if os.path.exists(k)]
    if not keys or not shutil.which("debootstrap"):
        raise unittest.SkipTest("no debootstrap here" if keys else "no %s here" % keyring)
    subprocess.run(["rm", "-rf", "--one-file-system", path], check=True)
    os.makedirs(CACHE, exist_ok=True)
    done = subprocess.run(["debootstrap", "--variant=minbase", "--keyring=" + keys[0], "--include=" + PACKAGES, suite, path, mirror], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise unittest.SkipTest("debootstrap %s: %s" % (suite, done.stdout.strip().split("\n")[-1]))
    open(os.path.join(path, "complete"), "w").close()
    return path


class OldGlibc:
    """The tests, for each of the roots below."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0:
            raise unittest.SkipTest("only root can chroot")
        if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
            raise unittest.SkipTest("no mount namespace can be had here")
        cls.path = make_root(*cls.root)
        cls.folder = tempfile.mkdtemp(prefix="memtrace-", dir=os.path.join(cls.path, "tmp"))
        cls.addClassCleanup(shutil.rmtree, cls.folder, True)
        cls.inside = "/tmp/" + os.path.basename(cls.folder)
        for name in ("memtrace", "libmemtrace.so", "libcudasim.so", "libcudasim-nvml.so"):
            shutil.copy(os.path.join(BUILD, name), cls.folder)
        shutil.copytree(os.path.join(BUILD, "cudasim", "python"), os.path.join(cls.folder, "cudasim", "python"))
        stubs = [os.path.join(BUILD, "libc", n) for n in ("libpthread.so.0", "libdl.so.2")]
        old = ["-I" + os.path.join(ROOT, "include"), "-include", "memtrace/old_libc.h"]
        start = [os.path.join(ROOT, "analyzer", "util", "start.c"), "-Wl,--wrap=__libc_start_main"]
        build.compile_(os.path.join(cls.folder, "threads"), "old_libc.c", "-DTHREADS=4", *old, *start, *stubs)
        driver = build.library(os.path.join(cls.folder, "libcuda.so.1"), "old_libc.c", "-DDRIVER", "-Wl,-soname,libcuda.so.1", *old)
        build.compile_(os.path.join(cls.folder, "alone"), "old_libc.c", "-DTHREADS=0", *old, *start, driver, "-Wl,-rpath,$ORIGIN")

    def setUp(self):
        self.traces = tempfile.mkdtemp(prefix="traces-", dir=self.folder)

    def run_in(self, *command, preload=("libmemtrace.so", "libcudasim.so"), status=0):
        """Runs COMMAND in the root and returns its stdout. stderr must be empty."""
        settings = ["LD_PRELOAD=" + ":".join(os.path.join(self.inside, p) for p in preload), "MEMTRACE_QUIET=1", "MEMTRACE_STACK_MIN=0",
                    "MEMTRACE_DIR=" + os.path.join(self.inside, os.path.basename(self.traces))]
        inner = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev" && cd "$0" && exec chroot "$0" /usr/bin/env "$@"'
        done = subprocess.run(["unshare", "--mount", "sh", "-c", inner, self.path, *settings, *command], env=environment(), stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=120)
        said = "\n".join(line for line in done.stderr.splitlines() if "no version information available" not in line)  # from an older jansson
        self.assertEqual((done.returncode, said), (status, ""), done.stdout)
        return done.stdout

    def trace(self):
        found = sorted(os.listdir(self.traces))
        self.assertEqual(len(found), 1, found)
        return mtr.Trace(os.path.join(self.traces, found[0]))

    def counts(self, trace):
        return collections.Counter((mtr.KINDS[r[5]], r[2]) for r in trace.records() if mtr.KINDS[r[5]].startswith("DEVICE_") and r[5] != mtr.SAMPLE)

    def python(self):
        return sorted(n for n in os.listdir(os.path.join(self.path, "usr", "bin")) if n[:8] == "python3." and n[8:].isdigit())[0]

    def test_libc(self):
        """The root has the expected versions."""
        said = self.run_in("/usr/bin/ldd", "--version", preload=())
        self.assertRegex(said.split("\n")[0], r" %s$" % self.glibc.replace(".", r"\."))

    def test_program_without_cuda(self):
        """Each library alone and both together in a program that uses neither CUDA nor libpthread."""
        for preload in (("libmemtrace.so",), ("libcudasim.so",), ("libmemtrace.so", "libcudasim.so"), ("libmemtrace.so", "libcudasim.so", "libcudasim-nvml.so")):
            with self.subTest(preload):
                self.run_in("/bin/true", preload=preload)
                self.assertEqual(os.listdir(self.traces), [])

    def test_threads(self):
        """Four threads on the simulated device: each of their blocks is recorded once."""
        self.assertEqual(self.run_in(self.inside + "/threads", "300"), "done\n")
        self.assertEqual(self.counts(self.trace()), {("DEVICE_ALLOC", BLOCK): 1200, ("DEVICE_FREE", -BLOCK): 1200})

    def test_without_libpthread(self):
        """Without libpthread, if it is a separate library: no helper thread, and every event."""
        self.assertEqual(self.run_in(self.inside + "/alone", "300", preload=("libmemtrace.so",)), "done\n")
        self.assertEqual(self.counts(self.trace()), {("DEVICE_ALLOC", BLOCK): 300, ("DEVICE_FREE", -BLOCK): 300})

    def test_python(self):
        """The root's Python through ctypes: each block is recorded."""
        self.assertEqual(self.run_in("/usr/bin/" + self.python(), "-c", PYTHON_JOB), "done\n")
        self.assertEqual(self.counts(self.trace()), {("DEVICE_ALLOC", 3 << 20): 5})

    def test_command(self):
        """`memtrace simulate` starts a job in the root; the report there equals the report here."""
        memtrace = self.inside + "/memtrace"
        self.assertEqual(self.run_in(memtrace, "simulate", "--", "/usr/bin/" + self.python(), "-c", PYTHON_JOB, preload=()), "done\n")
        there = json.loads(self.run_in(memtrace, "report", "--json", os.path.join(self.inside, os.path.basename(self.traces)), preload=()))
        here = subprocess.run([MEMTRACE, "report", "--json", self.traces], env=environment(), check=True, stdout=subprocess.PIPE, text=True).stdout
        here = json.loads(here.replace(self.traces, os.path.join(self.inside, os.path.basename(self.traces))))
        self.assertEqual(there, here)


class Debian11(OldGlibc, unittest.TestCase):
    root, glibc = ("debian-11", "bullseye", "http://deb.debian.org/debian", "debian-archive-keyring.gpg"), "2.31"


class Ubuntu1804(OldGlibc, unittest.TestCase):
    """Older than RHEL 8's 2.28: before 2.30 the loader looks for a function only in the library that its version names."""
    root, glibc = ("ubuntu-18.04", "bionic", "http://archive.ubuntu.com/ubuntu", "ubuntu-archive-keyring.gpg"), "2.27"


if __name__ == "__main__":
    unittest.main()
