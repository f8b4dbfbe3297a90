"""The line on stderr must not hang, overwrite or lose anything, for every use of stderr and of the directory by the job."""
import os
import socket
import subprocess

from harness import PRELOAD, SIM, Case, environment, python

TOTALS = "import torch; x = torch.empty(1 << 20, device='cuda')\n"
OOM = "try: torch.empty(1 << 42, device='cuda')\nexcept torch.OutOfMemoryError: pass\n"


class Notices(Case):
    def job(self, source, stderr=subprocess.PIPE, **settings):
        env = environment(**dict({"MEMTRACE_DIR": self.traces}, LD_PRELOAD=PRELOAD + " " + SIM, **settings))
        return subprocess.run([python(), "-c", source], env=env, cwd=self.dir, stdout=subprocess.PIPE, stderr=stderr, text=True, timeout=120, check=True)

    def full(self, write):
        os.set_blocking(write, False)
        try:
            while True:
                os.write(write, b"x" * 4096)
        except BlockingIOError:
            pass
        os.set_blocking(write, True)
        return write

    def test_stderr_that_nobody_reads(self):
        """The line at the end, and the line at the first allocation, which reports a wrong setting."""
        read, write = os.pipe()
        ours, theirs = socket.socketpair()
        for stderr in self.full(write), self.full(theirs.fileno()):
            self.job(TOTALS, stderr, MEMTRACE_STACK_MIN="many")
            self.job(TOTALS + OOM, stderr)
        os.close(read)
        os.close(write)
        ours.close()
        theirs.close()
        self.assertEqual(len(self.paths()), 4)

    def test_stderr_that_is_a_file_by_now(self):
        """The number of stderr now belongs to a checkpoint file: it keeps its 10 bytes."""
        for how in "os.close(2); fd = os.open('data', os.O_WRONLY | os.O_CREAT | os.O_TRUNC)", \
                   "fd = os.dup2(os.open('data', os.O_WRONLY | os.O_CREAT | os.O_TRUNC), 2)":
            for before, after in ("", TOTALS), (TOTALS, ""):
                self.job("import os\n%s\n%s\nassert fd == 2\nos.write(fd, b'checkpoint')\n%s" % (before, how, after))
                with open(os.path.join(self.dir, "data"), "rb") as f:
                    self.assertEqual(f.read(), b"checkpoint")

    def test_stderr_that_is_a_log_from_the_start(self):
        with open(os.path.join(self.dir, "log"), "w") as log:
            self.job("import os; os.write(2, b'job\\n')\n" + TOTALS, log)
        with open(os.path.join(self.dir, "log")) as f:
            job, ours = f.read().splitlines()
        self.assertEqual((job, ours[:20]), ("job", "memtrace: peak 4.0 M"))

    def test_another_directory(self):
        """A rank that changed its directory still reports that memory ran out, and leaves no file in a folder with the name of the traces' folder."""
        self.traces = os.path.join(self.dir, "memtrace")
        done = self.job(TOTALS + "import os; os.makedirs('nd/memtrace'); os.chdir('nd')\n" + OOM, RANK=1, WORLD_SIZE=2, MEMTRACE_DIR="")
        self.assertIn("memtrace: out of memory on rank 1", done.stderr)
        self.assertEqual(os.listdir(os.path.join(self.dir, "nd/memtrace")), [])
        self.assertEqual(len([f for f in os.listdir(self.traces) if f.startswith(".oom-")]), 1)

    def test_errors_by_name(self):
        os.symlink("/nonexistent", os.path.join(self.dir, "dangling"))
        done = self.job(TOTALS, MEMTRACE_DIR=os.path.join(self.dir, "dangling", "x"))
        self.assertIn("(no such file or directory)", done.stderr)
