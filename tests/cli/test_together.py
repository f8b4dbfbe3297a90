"""memtrace simulate --together on two ranks that use NCCL and the store without PyTorch: how they end, and that nothing of them remains."""
import os
import re
import signal
import subprocess
import sys
import time

from harness import JOBS, MEMTRACE, Case, environment, gone

MEET = [sys.executable, os.path.join(JOBS, "meet.py")]


def memory():
    """The places in which shared data of the ranks could remain."""
    return {n for n in os.listdir("/dev/shm") if n.startswith("cudasim-")}


class Meeting(Case):
    def setUp(self):
        super().setUp()
        self.before = memory()

    def begin(self, how, *options, job=("--world-size", "2", "--ranks", "0-1"), **settings):
        folder = os.path.join(self.dir, "tmp")
        os.makedirs(folder, exist_ok=True)
        def heed():  # background jobs of a shell ignore the signal
            signal.signal(signal.SIGINT, signal.SIG_DFL)
        child = subprocess.Popen([MEMTRACE, "simulate", "-o", self.traces, *job, "--together", *options, "--", *MEET, how], preexec_fn=heed,
                                 env=environment(TMPDIR=folder, **settings), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for stream in (child.stdout, child.stderr):
            self.addCleanup(stream.close)
        self.addCleanup(child.wait)
        self.addCleanup(child.kill)
        return child

    def end(self, child, status):
        """Returns its standard error; checks that nothing of it remains."""
        out, said = child.communicate(timeout=120)
        self.assertEqual(child.returncode, status, said)
        self.assertEqual(os.listdir(os.path.join(self.dir, "tmp")), [])
        for pid in re.findall(r"process (\d+)", out):
            self.assertTrue(gone(int(pid)))
        for _ in range(200):  # other jobs also have such files, for a moment
            if memory() <= self.before:
                break
            time.sleep(0.02)
        self.assertLessEqual(memory(), self.before)
        return said

    def test_end(self):
        """All ranks of the job run: none is emulated."""
        said = self.end(self.begin("end"), 0)
        self.assertIn("2 of 2 ranks, simulated together", said)

    def test_exception(self):
        said = self.end(self.begin("raise"), 1)
        self.assertIn("ValueError: as asked", said)
        self.assertRegex(said, r"ncclRecv: a rank's process has died; communicator cudasim-\w+, rank 0 of 2, waiting for rank\(s\) 1")

    def test_killed(self):
        said = self.end(self.begin("killed"), 1)
        self.assertRegex(said, r"\n +1 .* 137 ")
        self.assertIn("ncclRecv: a rank's process has died", said)

    def signalled(self, number):
        child = self.begin("join")
        self.assertIn("is there", child.stdout.readline())
        self.assertIn("is there", child.stdout.readline())
        time.sleep(0.3)
        child.send_signal(number)
        self.end(child, -number)

    def test_interrupted(self):
        self.signalled(signal.SIGINT)

    def test_terminated(self):
        self.signalled(signal.SIGTERM)

    def test_time_limit_of_a_message(self):
        """The message names the call, and the rank for which it waits."""
        said = self.end(self.begin("hang", job=("--world-size", "8", "--ranks", "4,6"), CUDASIM_TIMEOUT=1), 1)
        self.assertRegex(said, r"ncclRecv: time limit \(CUDASIM_TIMEOUT\) reached; communicator cudasim-\w+, rank 0 of 2, waiting for rank\(s\) 1; "
                               r"in the job, rank 4 for rank\(s\) 6\n")
        self.assertRegex(said, r"\n +6 .*\n +ended, because another rank had failed\n")

    def test_time_limit_of_the_command(self):
        said = self.end(self.begin("join", "--timeout", "10"), 134)
        self.assertRegex(said, r"rank 0 is in ncclCommInitRank: not done; communicator cudasim-\w+, rank 0 of 2, waiting for rank\(s\) 1; in the job, rank 0 for rank\(s\) \?\n")
        self.assertNotIn("rank 1 is in", said)
        self.assertEqual(said.count("has run for 10 s (--timeout)"), 2)


class Launched(Case):
    def test_torchrun(self):
        """The launcher's arguments are read, and it is not run."""
        torchrun = os.path.join(self.dir, "torchrun")
        os.symlink("/bin/false", torchrun)
        os.symlink(sys.executable, os.path.join(self.dir, "python3"))
        done = self.simulate([torchrun, "--nproc-per-node", "2", MEET[1], "end"], "--ranks", "all", "--together")
        self.assertEqual(done.stdout.count("is there"), 2)
        self.assertIn("2 of 2 ranks, simulated together", done.stderr)


if __name__ == "__main__":
    import unittest
    unittest.main()
