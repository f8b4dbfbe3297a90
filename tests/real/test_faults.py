"""Failures of jobs, disks and processes cost the job nothing, and the trace as little as possible."""
import os
import re
import random
import signal
import subprocess
import sys
import time

from harness import JOBS, MEMTRACE, PRELOAD, SIM, Case, environment, mtr, python

LOOP = os.path.join(JOBS, "loop.py")
TOTALS = "import torch; x = torch.empty(1 << 20, device='cuda')\n"


class Faults(Case):
    def code(self, source, **keys):
        return self.simulate([python(), "-c", source], **keys)

    def lines(self, done):
        return [l for l in done.stderr.splitlines() if l.startswith("memtrace:")]

    def test_sigkill_at_ten_moments(self):
        rng = random.Random(3)
        for i in range(10):
            with self.subTest(moment=i):
                traces = os.path.join(self.dir, "kill-%d" % i)
                env = environment(MEMTRACE_DIR=traces, MEMTRACE_BUDGET="8MiB" if i % 2 else "64MiB", LD_PRELOAD=PRELOAD + " " + SIM)
                job = subprocess.Popen([python(), LOOP], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
                first = job.stdout.readline()
                time.sleep(rng.random() * 1.5)
                job.send_signal(signal.SIGKILL)
                lines = [first, *job.stdout.read().splitlines()]
                job.stdout.close()
                job.wait()
                allocs, frees, allocated, reserved = map(int, [l for l in lines if len(l.split()) == 4][-1].split())
                self.assertGreater(allocs, 0)
                self.traces = traces
                entry = self.report()["ranks"][0]
                self.assertEqual(entry["end"], "killed")
                trace = self.trace()
                # every event before the last printed line is there; the job may have continued for a moment
                self.assertGreaterEqual(trace.device[0][8], allocs)
                self.assertGreaterEqual(trace.device[0][9], frees)
                # the replay ends at the values of the counters, or one event before or after
                sizes = {r[2] for r in trace.records(gaps=True) if r[5] in (1, 2)}
                self.assertIn(abs(entry["final"]["allocated_bytes"] - trace.device[0][1]), sizes | {0})
                if trace.reused_records == 0:
                    self.assertEqual(self.totals_after(trace, allocs, frees), (allocated, reserved))

    def totals_after(self, trace, allocs, frees):
        """Allocated and reserved bytes after that number of events of the trace."""
        a = f = now = reserved = 0
        for r in trace.records():
            if r[5] in (1, 2):
                if (a, f) == (allocs, frees):
                    break
                now += r[2]
                a += r[5] == 1
                f += r[5] == 2
            elif r[5] == 4:
                reserved = r[2]
            if (a, f) == (allocs, frees):
                return now, reserved
        self.fail("the trace does not get to %d allocs and %d frees" % (allocs, frees))

    def test_full_disk(self):
        disk = os.path.join(self.dir, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=600k", "tmpfs", disk], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot mount a small tmpfs here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk])
        self.traces = os.path.join(disk, "traces")
        done = self.simulate([python(), LOOP, "400"], MEMTRACE_STACK_MIN=0)
        self.assertEqual(len(done.stdout.splitlines()), 400)
        said = self.lines(done)
        self.assertEqual(len([l for l in said if "no space left on device" in l]), 1, said)
        trace = self.trace()
        self.assertEqual((trace.lost_reason, trace.lost_errno), (1, 28))
        self.assertGreater(trace.lost_events, 0)
        # recorded and lost events together are the events that PyTorch counted
        allocs, frees = map(int, done.stdout.splitlines()[-1].split()[:2])
        self.assertGreaterEqual(trace.device[0][8] + trace.device[0][9], allocs + frees)
        entry = self.report()["ranks"][0]
        self.assertTrue(entry["lost"])

    def test_full_disk_from_the_start(self):
        """Not even the header has room, which takes more than a page."""
        disk = os.path.join(self.dir, "disk")
        os.mkdir(disk)
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", disk], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("cannot mount a small tmpfs here")
        self.addCleanup(subprocess.run, ["umount", "-l", disk])
        self.traces = os.path.join(disk, "traces")
        # nothing waits longer than 100 ms for the line, which an overloaded machine may therefore lose
        for _ in range(3):
            done = self.code(TOTALS + "print(torch.cuda.memory_allocated())")
            self.assertEqual(done.stdout, "4194304\n")
            if len(self.lines(done)) == 1:
                break
        self.assertEqual(len(self.lines(done)), 1, done.stderr)
        self.assertIn("not recording", done.stderr)
        deadline = time.monotonic() + 10
        while self.paths() and time.monotonic() < deadline:  # the writer takes the file away, and the job does not wait for it
            time.sleep(0.01)
        self.assertEqual(self.paths(), [])

    def test_directory_that_cannot_be_made(self):
        self.traces = "/proc/memtrace"
        done = self.code(TOTALS + "print(torch.cuda.memory_allocated())")
        self.assertEqual(done.stdout, "4194304\n")
        self.assertEqual(len(self.lines(done)), 1, done.stderr)

    def test_reader_of_stderr_is_gone(self):
        """Our line into a closed pipe does not end a job that does not ignore SIGPIPE."""
        self.run_(["bash", "-c", 'exec 2> >(exec 0<&-); sleep 0.3; exec "$@"', "bash", MEMTRACE, "simulate", "-o", self.traces, "--", python(), "-c",
                   "import signal; signal.signal(signal.SIGPIPE, signal.SIG_DFL)\n" + TOTALS])
        self.assertEqual(self.trace().exit_status, 0)

    def test_spawned_ranks_are_one_run(self):
        """torch.multiprocessing without RANK: one run, one line; a worker started by a shell script belongs to its launcher's run."""
        job = os.path.join(self.dir, "spawn.py")
        with open(job, "w") as f:
            f.write("import torch, torch.multiprocessing as mp\ndef work(i):\n    x = torch.empty((i + 1) << 20, device='cuda')\n"
                    "if __name__ == '__main__':\n    mp.spawn(work, nprocs=2)\n")
        done = self.simulate([python(), job])
        self.assertEqual(len(self.lines(done)), 1, done.stderr)
        self.assertEqual(len(self.report()["ranks"]), 2)
        self.traces += "-2"
        script = os.path.join(self.dir, "worker.sh")
        with open(script, "w") as f:
            f.write('#!/bin/sh\n%s -c "import torch; x = torch.empty(1 << 20, device=\'cuda\')"\ntrue\n' % python())
        os.chmod(script, 0o755)
        self.simulate([python(), "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--no-python", script])
        self.assertEqual([r["rank"] for r in self.report()["ranks"]], [0, 1])

    def test_line_names_a_command_that_works(self):
        done = self.run_([MEMTRACE, "simulate", "-o", os.path.join(self.dir, "my traces"), "--", python(), "-c",
                          TOTALS + "import os; os.chdir('/')"])
        line, = self.lines(done)
        self.assertIn("(simulated device)", line)
        report, page = re.search("(memtrace report .*); as a page: (memtrace html .*)$", line).groups()
        for command, said in ((report, "4.0 MiB"), (page + " -o -", "<!doctype html>")):
            done = subprocess.run(command.replace("memtrace ", MEMTRACE + " ", 1), shell=True, cwd="/", stdout=subprocess.PIPE, text=True)
            self.assertIn(said, done.stdout)

    def test_no_file_descriptors(self):
        """A job that has used all its descriptor numbers is recorded: the recorder needs none of them."""
        done = self.code("import torch, os, resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
                         "torch.cuda.init()\nfds = []\ntry:\n    while True: fds.append(os.open('/dev/null', 0))\nexcept OSError: pass\n"
                         "x = torch.empty(1 << 20, device='cuda')\n[os.close(f) for f in fds]\nprint(torch.cuda.memory_allocated())")
        self.assertEqual(done.stdout, "4194304\n")
        self.assertEqual(self.trace().peak(), 4 << 20)

    def test_fork_without_exec(self):
        """A data loader's child, and a child that allocates memory: neither writes into its parent's file."""
        self.code(TOTALS + "import os\nfor i in range(3):\n    if os.fork() == 0:\n        y = [0] * 1000\n        os._exit(0)\n    os.wait()\n"
                  "d = torch.utils.data.DataLoader(list(range(64)), num_workers=2)\nassert len(list(d)) == 64\n"
                  "z = torch.empty(1 << 20, device='cuda')\nassert torch.cuda.memory_allocated() == 8388608\n")
        trace = self.trace()
        self.assertEqual(sum(1 for r in trace.records() if r[5] == 1), 2)
        self.assertEqual(trace.exit_status, 0)

    def test_child_that_allocates_has_its_own_trace(self):
        self.code("import os, torch\npid = os.fork()\nx = torch.empty((1 << 20) * (1 if pid else 3), device='cuda')\n"
                  "assert not pid or os.waitpid(pid, 0)[1] == 0\n")
        self.assertEqual(sorted(mtr.Trace(p).peak() for p in self.paths()), [4 << 20, 12 << 20])

    def test_exec(self):
        self.code(TOTALS + "import os, sys\nos.execv(sys.executable, [sys.executable, '-c', \"import torch; y = torch.empty(2 << 20, device='cuda')\"])")
        self.assertEqual(sorted(mtr.Trace(p).peak() for p in self.paths()), [4 << 20, 8 << 20])

    def test_ends_without_handlers(self):
        for how, status in (("os._exit(5)", 5), ("os.abort()", 128 + signal.SIGABRT), ("os.kill(os.getpid(), 11)", 128 + 11)):
            with self.subTest(how=how):
                self.traces = os.path.join(self.dir, "end-" + how[:8])
                self.run_(["sh", "-c", 'exec 2>/dev/null; "$@"; exit $?', "sh", MEMTRACE, "simulate", "-o", self.traces, "--", python(), "-c",
                           TOTALS + "import os; " + how], status=status)
                self.assertEqual(self.ended_report()["ranks"][0]["end"], "killed")
                self.assertEqual(self.trace().peak(), 4 << 20)

    def test_running(self):
        job = subprocess.Popen([python(), LOOP], env=environment(MEMTRACE_DIR=self.traces, LD_PRELOAD=PRELOAD + " " + SIM),
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        try:
            for _ in range(5):
                job.stdout.readline()
            entry = self.report()["ranks"][0]
            self.assertEqual(entry["end"], "running")
            self.assertGreater(entry["peak"]["allocated_bytes"], 8 << 20)
        finally:
            job.kill()
            job.communicate()

    def test_nothing_without_a_gpu_allocation(self):
        for command in (["bash", "-c", "true"], ["git", "--version"], [sys.executable, "-c", "import ssl, subprocess; subprocess.run(['true'])"],
                        [python(), "-c", "import torch; print(torch.cuda.device_count())"]):
            done = self.simulate(command)
            self.assertRegex(done.stderr, r"^memtrace: nothing was recorded in [^\n]*\n$")
            self.assertFalse(os.path.exists(self.traces), command)
        threads = self.code("import torch, os, time; a = len(os.listdir('/proc/self/task')); x = torch.empty(1, device='cuda'); time.sleep(0.5); "
                            "print(a, len(os.listdir('/proc/self/task')))").stdout.split()
        self.assertEqual(int(threads[1]) - int(threads[0]), 1)

    def test_ranks_setting_and_unknown_names(self):
        source = TOTALS + "del x\n"
        done = self.code(source, RANK=3, WORLD_SIZE=8, MEMTRACE_RANKS="0,4-7")
        trace = self.trace()
        self.assertEqual(list(trace.records()), [])
        self.assertEqual((trace.device[0][2], trace.device[0][8], trace.device[0][9]), (4 << 20, 1, 1))
        entry = self.report()["ranks"][0]
        self.assertEqual(entry["peak"]["allocated_bytes"], 4 << 20)
        self.traces += "-2"
        done = self.code(source, MEMTRACE_BUDGETS="1", MEMTRACE_STACK_MIN="lots")
        said = self.lines(done)
        self.assertEqual(len([l for l in said if "MEMTRACE_BUDGETS is no setting" in l]), 1, said)
        self.assertEqual(len([l for l in said if "MEMTRACE_STACK_MIN must be a size" in l]), 1, said)
        self.traces += "-3"
        self.code(source, MEMTRACE_DISABLE=1)
        self.assertFalse(os.path.exists(self.traces))

    def test_secrets_stay_out(self):
        self.run_([MEMTRACE, "simulate", "-o", self.traces, "--", python(), "-c", TOTALS, "--wandb-api-key", "abcdef", "--hf-token=hf_1234567890abcdef",
                   "--lr", "0.1"], NCCL_DEBUG="WARN", TORCH_TOKEN="verysecret", HF_TOKEN="hf_xxxxxxxxxxxxxxxxxxxx")
        with open(self.paths()[0], "rb") as f:
            data = f.read()
        for secret in (b"abcdef", b"hf_1234", b"verysecret", b"hf_xxxx"):
            self.assertNotIn(secret, data)
        meta = self.trace().meta
        self.assertIn(b"--wandb-api-key\0***\0--hf-token=***\0--lr\x000.1", meta["argv"])
        self.assertEqual(meta["env:NCCL_DEBUG"], b"WARN")
        self.assertEqual(meta["env:TORCH_TOKEN"], b"***")
        self.assertTrue(meta["version:torch"].startswith(b"2.15"))
