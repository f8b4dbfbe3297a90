"""The job's own files, children and descriptors, and file systems that stall: the recorder does not touch them, and does not wait for them."""
import ctypes
import hashlib
import os
import signal
import subprocess
import sys
import time

from harness import PRELOAD, SIM, alone, environment, python
from host_case import HostCase

CLOSES = """
import hashlib, os, sys, time, torch
x = torch.empty(1, device="cuda")
time.sleep(0.5)  # whoever writes the trace has opened it
os.closerange(3, 4096)
files = []
for i in range(40):
    fd = os.open("checkpoint-%d" % i, os.O_RDWR | os.O_CREAT)
    files.append((fd, os.urandom(1 << 18)))
    for k in range(875):
        y = torch.empty(1 << 12, device="cuda")
        del y
    os.pwrite(fd, files[-1][1], 0)
for fd, data in files:
    assert os.pread(fd, 1 << 20, 0) == data
print(hashlib.sha256(b"".join(d for _, d in files)).hexdigest())
"""

TAKES_EVERY_NUMBER = """
import os, time, torch
mine = os.open("mine", os.O_RDWR | os.O_CREAT)
os.write(mine, b"m" * 4096)
x = torch.empty(1, device="cuda")
time.sleep(0.5)
for fd in range(3, 256):
    if fd != mine:
        os.dup2(mine, fd)
for i in range(20000):
    y = torch.empty(1 << 12, device="cuda")
    del y
"""

DROPS_INHERITED = """
import os, torch
from torch.utils.data import DataLoader, Dataset
class Cached(Dataset):
    def __init__(self): self.cache = {i: torch.ones(1 << 18, device="cuda") for i in range(8)}
    def __len__(self): return 64
    def __getitem__(self, i):
        self.cache.pop(i % 8, None)
        return torch.zeros(4)
if __name__ == "__main__":
    for epoch in range(2):
        data = Cached()
        assert len(list(DataLoader(data, batch_size=4, num_workers=2))) == 16
    pid = os.fork()
    if pid == 0:
        del data.cache[0]
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    pid = os.posix_spawn("/bin/true", ["true"], os.environ)
    assert os.waitpid(pid, 0)[1] == 0
"""


class Host(HostCase):
    def real(self, source, **keys):
        return self.simulate([python(), "-c", source], **keys)

    # ---- files and descriptors

    def closes_every_descriptor(self, **settings):
        done = self.real(CLOSES, **settings)
        data = b"".join(open(os.path.join(self.dir, "checkpoint-%d" % i), "rb").read() for i in range(40))
        self.assertEqual(hashlib.sha256(data).hexdigest(), done.stdout.strip())
        trace = self.trace()
        self.assertEqual(sum(r[5] in (1, 2) for r in trace.records()), 70_002)
        self.assertEqual((trace.exit_status, trace.lost_events), (0, 0))

    def test_closes_every_descriptor(self):
        self.closes_every_descriptor()

    def test_closes_every_descriptor_of_a_thread_that_writes(self):
        """As the first process of a container, where the file is not written by a process of its own."""
        self.closes_every_descriptor(MEMTRACE_WRITER_PROCESS=0)

    def takes_every_number(self, **settings):
        self.real(TAKES_EVERY_NUMBER, **settings)
        with open(os.path.join(self.dir, "mine"), "rb") as f:
            self.assertEqual(f.read(), b"m" * 4096)
        self.assertEqual(sum(r[5] in (1, 2) for r in self.trace().records()), 40_002)

    def test_every_number_is_the_jobs(self):
        self.takes_every_number()

    def test_every_number_is_the_jobs_of_a_thread_that_writes(self):
        self.takes_every_number(MEMTRACE_WRITER_PROCESS=0)

    def no_descriptor_of_ours(self, **settings):
        done = self.real("import os, torch\nbefore = set(os.listdir('/proc/self/fd'))\nr, w = os.pipe()\n"
                         "torch.cuda.init()\nx = torch.empty(1, device='cuda')\nos.close(w)\nprint(os.read(r, 1) == b'')\n"
                         "print([os.readlink('/proc/self/fd/' + f) for f in os.listdir('/proc/self/fd') if os.path.exists('/proc/self/fd/' + f)])", **settings)
        self.assertIn("True", done.stdout)
        self.assertNotIn(".mtr", done.stdout)
        self.assertNotIn("memfd", done.stdout)

    def test_no_descriptor_of_ours(self):
        """Neither the job nor the writer keeps descriptors of the other open: a pipe ends when the job closes it."""
        self.no_descriptor_of_ours()

    def test_no_descriptor_of_a_thread_that_writes(self):
        self.no_descriptor_of_ours(MEMTRACE_WRITER_PROCESS=0)

    def test_truncated_by_somebody(self):
        done = self.real("import torch, glob, os, time\nx = torch.empty(1 << 20, device='cuda')\ntime.sleep(0.5)\n"
                         "os.truncate(glob.glob(os.environ['MEMTRACE_DIR'] + '/*.mtr')[0], 0)\n"
                         "for i in range(50000):\n    y = torch.empty(1 << 20, device='cuda'); del y\nprint('alive')")
        self.assertEqual(done.stdout, "alive\n")

    def test_directories_are_the_users_alone(self):
        os.umask(0o000)
        self.addCleanup(os.umask, 0o022)
        self.traces = os.path.join(self.dir, "a", "b")
        self.report_("blocks", "10")
        for folder in ("a", "a/b"):
            self.assertEqual(os.stat(os.path.join(self.dir, folder)).st_mode & 0o7777, 0o700)
        self.assertEqual(os.stat(self.paths()[0]).st_mode & 0o7777, 0o600)

    def test_symbolic_link_is_not_followed(self):
        target = os.path.join(self.dir, "target")
        os.mkdir(target)
        os.symlink(target, self.traces)
        done = self.report_("blocks", "10")
        self.assertEqual(os.listdir(target), [])
        self.assertIn("not recording", done.stderr)

    def test_opened_by_the_job_itself(self):
        """If the job opens and closes its own trace, the trace still counts as running."""
        job = subprocess.Popen([python(), "-c", "import torch, glob, os, sys, time\nx = torch.empty(1 << 20, device='cuda')\ntime.sleep(0.5)\n"
                                "open(glob.glob(os.environ['MEMTRACE_DIR'] + '/*.mtr')[0], 'rb').read(1)\nprint('open', flush=True)\nsys.stdin.read()"],
                               env=environment(MEMTRACE_DIR=self.traces, LD_PRELOAD=PRELOAD + " " + SIM), stdin=subprocess.PIPE,
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            self.assertEqual(job.stdout.readline(), "open\n")
            self.assertEqual(self.report()["ranks"][0]["end"], "running")
        finally:
            job.communicate("")
        self.assertEqual(self.report()["ranks"][0]["end"], "exit")

    # ---- children

    def test_children_that_free_what_they_inherited(self):
        self.real(DROPS_INHERITED)
        trace = self.trace()
        self.assertEqual(trace.exit_status, 0)
        self.assertEqual(len(self.report()["ranks"]), 1)

    def test_children_without_handlers(self):
        done = self.report_("raw_children")
        self.assertEqual(done.stdout, "0\n0\n")
        self.assertEqual([r[5] for r in self.trace().records() if r[5] in (1, 2)], [1, 2])

    def test_wait_of_the_job_finds_no_child(self):
        self.assertEqual(self.report_("wait").stdout, "-1\n")
        # as the first process of a container, where orphans become its children
        if subprocess.run(["unshare", "--pid", "--fork", "--mount-proc", "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no process namespaces here")
        self.traces += "-2"
        done = self.run_(["unshare", "--pid", "--fork", "--mount-proc", "env", "LD_PRELOAD=" + PRELOAD, self.compiled(), "wait"],
                         MEMTRACE_DIR=self.traces, timeout=60)
        self.assertEqual(done.stdout, "-1\n")
        self.assertEqual(sum(r[5] in (1, 2) for r in self.trace().records()), 21)

    def test_cancelled_thread(self):
        self.assertEqual(self.report_("cancel").stdout, "1\n")
        self.assertEqual(sum(r[5] == 1 for r in self.trace().records()), 2)

    def test_small_stack(self):
        self.report_("stack", "16384")
        self.assertEqual(sum(r[5] == 1 for r in self.trace().records()), 1)

    def test_first_child_in_a_process_namespace(self):
        """The end of a namespace's first process ends the namespace: that process is the job's, as without the recorder."""
        if subprocess.run(["unshare", "--pid", "--fork", "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no process namespaces here")
        self.assertEqual(self.report_("namespace").stdout, "7\n")

    def test_processors_and_priority_of_a_thread(self):
        """The first allocation comes on a thread that has processor 0 for itself, in real time: neither the helper thread nor the writer runs there."""
        job = subprocess.Popen([self.compiled(), "pinned"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               env=environment(MEMTRACE_DIR=self.traces, LD_PRELOAD=PRELOAD))
        try:
            if job.stdout.readline() != "ready\n":
                self.skipTest("no real-time priority here")
            job_has = os.sched_getaffinity(job.pid)
            time.sleep(1)
            tasks = [int(t) for t in os.listdir("/proc/%d/task" % job.pid)] + [self.writer()]
            self.assertEqual(len(tasks), 3)
            self.assertGreater(len(job_has), 1)
            for task in tasks:
                self.assertEqual(os.sched_getaffinity(task), job_has)
                self.assertEqual(os.sched_getscheduler(task), os.SCHED_OTHER)
        finally:
            job.communicate("")

    def test_sandbox_that_answers_system_calls(self):
        """The job's handler of SIGSYS answers a call in the kernel's place; the numbers are those of x86_64's openat, clone, close_range, gettid and
        sched_setaffinity. A handler that refuses futex is not among them: glibc itself then ends any process whose threads meet."""
        for number in (257, 56, 436, 186, 203):
            with self.subTest(call=number):
                self.assertEqual(self.report_("trapped", str(number), timeout=60).stdout, "1\n")

    # ---- failures that the recording survives

    def test_sigkill_loses_nothing(self):
        for events in (1, 1000, 300_000):
            with self.subTest(events=events):
                self.traces = os.path.join(self.dir, "killed-%d" % events)
                self.report_("blocks", str(events), "kill", status=-signal.SIGKILL)
                for _ in range(1000):       # the job may have ended before the writer started
                    if self.paths():
                        break
                    time.sleep(0.01)
                trace = self.trace()
                self.assertEqual(sum(r[5] in (1, 2) for r in trace.records()) + trace.lost_events, 2 * events + 1)
                self.assertEqual(trace.device[0][8] + trace.device[0][9], 2 * events + 1)
                self.assertEqual(self.report()["ranks"][0]["end"], "killed")

    def test_a_thread_writes_where_no_process_can(self):
        self.report_("blocks", "50000", MEMTRACE_WRITER_PROCESS=0)
        trace = self.trace()
        self.assertEqual(sum(r[5] in (1, 2) for r in trace.records()), 100_001)
        self.assertEqual(trace.exit_status, 0)

    def test_writer_is_killed(self):
        """The helper thread continues the file; the job does not count as killed."""
        job = subprocess.Popen([self.compiled(), "latency", "16"], stdout=subprocess.PIPE, text=True,
                               env=environment(MEMTRACE_DIR=self.traces, LD_PRELOAD=PRELOAD))
        time.sleep(1)
        os.kill(self.writer(), signal.SIGKILL)
        time.sleep(12)
        self.assertEqual(self.report()["ranks"][0]["end"], "running")
        events = int(job.communicate()[0].split()[0])
        trace = self.trace()
        self.assertEqual(sum(r[5] in (1, 2) for r in trace.records()), events)
        self.assertEqual(trace.exit_status, 0)

    def test_without_a_helper_thread(self):
        """The newest events survive: the recording threads keep the recording within its budget themselves."""
        library = os.path.join(self.dir, "no_threads.so")
        source = os.path.join(self.dir, "no_threads.c")
        with open(source, "w") as f:
            f.write("int pthread_create(void);\nint pthread_create(void) { return 11; }\n")
        subprocess.run(["gcc", "-shared", "-fPIC", source, "-o", library], check=True)
        self.report_("blocks", "200000", preload=PRELOAD + " " + library, MEMTRACE_BUDGET="1MiB")
        trace = self.trace()
        self.assertEqual(trace.device[0][8] + trace.device[0][9], 400_001)
        self.assertEqual(trace.lost_events, 0)
        newest = trace.segments[-1]
        self.assertEqual(newest[3] + min(newest[1], newest[2]), 400_002)     # and one level of RESERVED
        self.assertLess(os.path.getsize(self.paths()[0]), 1 << 20)

    def test_device_peak_at_the_smallest_budget(self):
        """Memory allocated outside PyTorch, long after PyTorch's own peak, and long before the end: 40 x 64 MiB by cuMemAlloc."""
        self.real("import torch, ctypes\ncu = ctypes.CDLL('libcuda.so.1')\n"
                  "def churn(n):\n    l = [None] * 32\n    for i in range(n): l[i & 31] = torch.empty(1 << 12, device='cuda')\n"
                  "keep = [torch.empty(1 << 20, dtype=torch.uint8, device='cuda') for _ in range(200)]\ndel keep; torch.cuda.empty_cache()\n"
                  "churn(20000)\np = (ctypes.c_uint64 * 40)()\n"
                  "for i in range(40): cu.cuMemAlloc_v2(ctypes.byref(p, 8 * i), ctypes.c_size_t(64 << 20))\n"
                  "for i in range(40): cu.cuMemFree_v2(ctypes.c_uint64(p[i]))\nchurn(40000)\n", MEMTRACE_BUDGET="1MiB")
        self.assertGreater(self.trace().reused_records, 0)
        peak = self.report()["ranks"][0]["peak"]
        self.assertEqual(peak["by_owner"]["application"], 40 * 64 << 20)
        self.assertEqual(peak["by_owner"]["unexplained"], 0)
        self.assertGreater(peak["device_time_s"], peak["time_s"])
        self.assertLessEqual(os.path.getsize(self.paths()[0]), 1 << 20)

    # ---- file systems that stall

    def frozen(self):
        """A separate file system that can be frozen, as for snapshots of volumes."""
        image, mount = os.path.join(self.dir, "image"), os.path.join(self.dir, "mount")
        os.mkdir(mount)
        with open(image, "wb") as f:
            f.truncate(64 << 20)
        if subprocess.run(["mkfs.ext4", "-q", image], stderr=subprocess.DEVNULL).returncode or \
                subprocess.run(["mount", "-o", "loop", image, mount], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot mount a file system here")
        self.addCleanup(subprocess.run, ["umount", "-l", mount])
        self.traces = os.path.join(mount, "traces")
        self.compiled()
        return mount

    def dead(self):
        """A file system that never answers, as of a server that is gone."""
        mount = os.path.join(self.dir, "dead")
        os.mkdir(mount)
        try:
            server = os.open("/dev/fuse", os.O_RDWR)
        except OSError:
            self.skipTest("no FUSE here")
        self.addCleanup(os.close, server)
        libc = ctypes.CDLL(None)
        if libc.mount(b"dead", mount.encode(), b"fuse", 0, b"fd=%d,rootmode=40000,user_id=%d,group_id=%d" % (server, os.getuid(), os.getgid())):
            self.skipTest("cannot mount a file system here")
        self.addCleanup(libc.umount2, mount.encode(), 2)
        return mount

    def test_configuration_of_a_dead_file_server(self):
        mount = self.dead()
        done = self.report_("blocks", "1000", MEMTRACE_CONFIG=os.path.join(mount, "config.yaml"))
        self.assertIn("MEMTRACE_CONFIG must be a file that can be read", done.stderr)
        self.assertEqual(sum(r[5] in (1, 2) for r in self.trace().records()), 2001)

    def test_directory_of_a_dead_file_server(self):
        mount = self.dead()
        began = time.monotonic()
        self.report_("blocks", "1000", MEMTRACE_DIR=os.path.join(mount, "traces"))
        self.assertLess(time.monotonic() - began, 10)

    @alone
    def test_frozen_file_system(self):
        mount = self.frozen()
        job = subprocess.Popen([self.compiled(), "latency", "5"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(MEMTRACE_DIR=self.traces, LD_PRELOAD=PRELOAD))
        time.sleep(1.5)
        subprocess.run(["fsfreeze", "-f", mount], check=True)
        time.sleep(2)
        subprocess.run(["fsfreeze", "-u", mount], check=True)
        events, longest = map(int, job.communicate()[0].split())
        self.assertLess(longest, 50_000_000)
        trace = self.trace()
        self.assertEqual(sum(r[5] in (1, 2) for r in trace.records()), events)
        self.assertEqual(trace.lost_events, 0)

    def test_job_ends_while_the_file_system_is_frozen(self):
        mount = self.frozen()
        job = subprocess.Popen([self.compiled(), "latency", "2"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(MEMTRACE_DIR=self.traces, LD_PRELOAD=PRELOAD))
        time.sleep(1)
        subprocess.run(["fsfreeze", "-f", mount], check=True)
        began = time.monotonic()
        try:
            events = int(job.communicate(timeout=30)[0].split()[0])
        finally:
            took = time.monotonic() - began
            subprocess.run(["fsfreeze", "-u", mount], check=True)
        self.assertEqual(job.returncode, 0)
        self.assertLess(took, 10)
        self.assertEqual(sum(r[5] in (1, 2) for r in self.trace().records()), events)

    def test_out_of_memory_while_the_file_system_is_frozen(self):
        """The job ends, and says why, without the file that chooses the process of a run that says it."""
        mount = self.frozen()
        job = subprocess.Popen([self.compiled(), "out_of_memory"], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                               env=environment(MEMTRACE_DIR=self.traces, LD_PRELOAD=PRELOAD))
        time.sleep(1)
        subprocess.run(["fsfreeze", "-f", mount], check=True)
        try:
            said = job.communicate("", timeout=10)[1]
        finally:
            subprocess.run(["fsfreeze", "-u", mount], check=True)
        self.assertEqual(job.returncode, 0)
        self.assertIn("memtrace: out of memory: asked 1.0 TiB", said)
        self.assertEqual(self.trace().device[0][10], 1)


if __name__ == "__main__":
    import unittest
    unittest.main()
