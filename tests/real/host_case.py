"""What the tests of the recorder in its job share: programs that report blocks as PyTorch's allocator does."""
import glob
import os

from harness import PRELOAD, Case
from hooks import build


class HostCase(Case):
    source = "report.c"

    def setUp(self):
        super().setUp()
        self.program = None

    def compiled(self):
        """`source` with a library that defines PyTorch's functions, which the preload finds and calls."""
        if not self.program:
            shim = build.library(os.path.join(self.dir, "libc10.so"), "c10.c")
            self.program = build.compile_(os.path.join(self.dir, "report"), self.source, shim, "-Wl,-rpath," + self.dir, "-lpthread")
        return self.program

    def report_(self, *arguments, preload=PRELOAD, timeout=60, status=0, **settings):
        return self.run_([self.compiled(), *arguments], LD_PRELOAD=preload, timeout=timeout, status=status,
                         **{"MEMTRACE_DIR": self.traces, **settings})

    def writer(self):
        """The process that has the trace open."""
        for link in glob.glob("/proc/[0-9]*/fd/*"):
            try:
                if os.readlink(link).startswith(self.traces):
                    return int(link.split("/")[2])
            except OSError:
                pass        # it has ended, or cannot be read
        self.fail("nobody has the trace open")
