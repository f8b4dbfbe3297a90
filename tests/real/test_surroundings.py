"""What surrounds the job is as without the recorder: clocks of other libraries, locked memory, locked files, ports."""
import os
import signal
import struct
import subprocess
import time

from harness import PRELOAD, environment
from host_case import HostCase

STANDS_STILL = """
#include <time.h>
int clock_gettime(clockid_t clock, struct timespec *t)
{
	(void)clock;
	*t = (struct timespec){ .tv_sec = 1577836800 };
	return 0;
}
"""

# A file system in user space, like those of object stores: it knows its files by their numbers.
FILE_SYSTEM = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>
static char is_served[1024];
#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
static int opened(int fd, const char *path)
{
	if (fd >= 0 && fd < 1024)
		is_served[fd] = strcmp(path, "served") == 0;
	return fd;
}
int open(const char *path, int flags, ...) { return opened(REAL(open)(path, flags, 0600), path); }
int openat(int d, const char *path, int flags, ...) { return opened(REAL(openat)(d, path, flags, 0600), path); }
int close(int fd)
{
	if (fd >= 0 && fd < 1024)
		is_served[fd] = 0;
	return REAL(close)(fd);
}
ssize_t read(int fd, void *to, size_t n)
{
	return fd >= 0 && fd < 1024 && is_served[fd] ? memset(to, 's', n), (ssize_t)n : REAL(read)(fd, to, n);
}
"""


def preload(path, source):
    subprocess.run(["gcc", "-shared", "-fPIC", "-xc", "-", "-o", path], input=source, text=True, check=True)
    return path


class Clock(HostCase):
    def test_clock_that_stands_still(self):
        """As with libfaketime: no wait lasts for ever, and the trace has the real times."""
        library = preload(os.path.join(self.dir, "clock.so"), STANDS_STILL)
        before = time.time()
        job = subprocess.Popen([self.compiled(), "out_of_memory"], stdin=subprocess.PIPE, stderr=subprocess.DEVNULL,
                               env=environment(MEMTRACE_DIR=self.traces, LD_PRELOAD=library + " " + PRELOAD))
        time.sleep(1)
        writer = self.writer()
        os.kill(writer, signal.SIGSTOP)
        try:
            job.communicate(b"", timeout=20)
        finally:
            os.kill(writer, signal.SIGCONT)
            job.kill()
        self.assertEqual(job.returncode, 0)
        trace = self.trace()
        started, = struct.unpack_from("<Q", trace.data, 40)
        oom, = [r for r in trace.records() if r[5] == 3]
        self.assertGreater(started / 1e9, before - 1)
        self.assertGreater(oom[0], 0.5e9)
        self.assertLess(oom[0], 20e9)


class Surroundings(HostCase):
    source = "surroundings.c"

    def prints(self, *arguments, **settings):
        done = self.report_(*arguments, status=None, **settings)
        if done.returncode == 77:
            self.skipTest("not allowed here")
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def test_locked_memory(self):
        """A job that locks its memory locks the pages that the recorder uses in it, and not what a recording reserves, twice its budget. (If a
        thread of the job writes, the C library may reserve 64 MiB for the thread that starts it, and count them.)"""
        for writer, kib in ("1", 8 << 10), ("0", 72 << 10):
            with self.subTest(writer_process=writer):
                self.assertLess(int(self.prints("locked", MEMTRACE_WRITER_PROCESS=writer)), kib)

    def test_what_the_job_gives_up_is_free(self):
        """The writer's process starts with no copy of the job's descriptors, not even for a moment: a lock and a port are free when the job closes them."""
        for i in range(5):
            self.assertEqual(self.prints("held"), "locked, bound\n")

    def test_file_system_in_user_space(self):
        """A library that knows the job's files by their numbers does not see the recorder's: these are numbers of another table."""
        library = preload(os.path.join(self.dir, "files.so"), FILE_SYSTEM)
        for writer in "1", "0":
            for both in library + " " + PRELOAD, PRELOAD + " " + library:
                with self.subTest(writer_process=writer, preload=both):
                    self.traces = os.path.join(self.dir, "traces-%s-%s" % (writer, both[-5]))
                    self.assertEqual(self.prints("served", preload=both, MEMTRACE_WRITER_PROCESS=writer), "3sss 3sss\n")
                    self.assertEqual(sum(r[5] in (1, 2) for r in self.trace().records()), 2000)

    def test_weak_reference(self):
        """A program that asks for CUDA by a weak reference finds the recorder's function. Without CUDA the call returns
        cudaErrorSharedObjectSymbolNotFound (302) and writes nothing; a program that checks errors goes on."""
        self.assertEqual(self.run_([self.compiled(), "weak"]).stdout, "no CUDA\n")
        self.assertEqual(self.prints("weak"), "302 unchanged\n")
