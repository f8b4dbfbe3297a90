"""memtrace top and report --follow: in a terminal of tmux, with hundreds of processes that write, and beside a real job."""
import contextlib
import glob
import json
import os
import re
import shlex
import shutil
import signal
import struct
import subprocess
import time
import unittest

import mtr
from harness import BUILD, JOBS, MEMTRACE, MiB, Case, environment, python

WRITERS = os.path.join(BUILD, "tests", "unit", "live", "live_traces")


def wait_for(what, seconds=60):
    """The first true value of `what`."""
    end = time.time() + seconds
    while time.time() < end:
        value = what()
        if value:
            return value
        time.sleep(0.1)
    raise AssertionError("waited for %d s in vain" % seconds)


class Live(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.traces)

    @contextlib.contextmanager
    def writers(self, count, *fates):
        """Processes that write traces; see live_traces.c."""
        with subprocess.Popen([WRITERS, self.traces, str(count), *fates], stdin=subprocess.PIPE) as p:
            try:
                wait_for(lambda: len(self.paths()) >= count)
                yield
            finally:
                p.stdin.close()
                p.wait()

    def frame(self, *options, status=0, **settings):
        done = self.run_([MEMTRACE, "top", "--once", "--json", *options, self.traces], status=status, **settings)
        self.assertEqual(done.stderr, "")
        return json.loads(done.stdout)

    def states(self, *options):
        return {r["rank"]: r["state"] for r in self.frame(*options)["ranks"] if "rank" in r}


class Terminal:
    """A command in a terminal of tmux."""

    def __init__(self, case, columns, lines, *command, **settings):
        self.socket = os.path.join(case.dir, "tmux")
        env = dict(environment(LC_ALL="C.UTF-8", TERM="screen-256color", **settings))
        line = "exec env LC_ALL=C.UTF-8 TERM=screen-256color %s 2>%s" % (
            " ".join(["%s=%s" % s for s in settings.items()] + [shlex.quote(c) for c in command]), os.path.join(case.dir, "stderr"))
        subprocess.run(["tmux", "-S", self.socket, "-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), line],
                       check=True, env=env)
        case.addCleanup(subprocess.run, ["tmux", "-S", self.socket, "kill-server"], stderr=subprocess.DEVNULL)

    def tmux(self, *command, check=True):
        return subprocess.run(["tmux", "-S", self.socket, *command], check=check, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def screen(self, *options):
        return self.tmux("capture-pane", "-p", *options).stdout.splitlines()

    def keys(self, *keys):
        self.tmux("send-keys", *keys)

    def resize(self, columns, lines):
        self.tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def shows(self, pattern, seconds=60):
        """The screen once a line matches and all of it is drawn: it stays the same for a moment."""
        def matching():
            lines = self.screen()
            if any(re.search(pattern, line) for line in lines):
                time.sleep(0.1)
                if self.screen() == lines:
                    return lines
        try:
            return wait_for(matching, seconds)
        except AssertionError:
            raise AssertionError("no line matches %r in:\n%s" % (pattern, "\n".join(self.screen()))) from None

    def has_ended(self):
        return self.tmux("list-sessions", check=False).returncode != 0


@unittest.skipUnless(shutil.which("tmux"), "no tmux")
class Screens(Live):
    def test_512_processes_on_screens_of_two_sizes(self):
        """One dies, one hangs, one runs out of memory, one fails, one grows; the window is resized; keys."""
        with self.writers(512, "dies=7", "hangs=70", "fails=170", "exits=270", "grows=500"):
            t = Terminal(self, 80, 24, MEMTRACE, "top", "--silent", "6", "--interval", "1", self.traces)
            lines = t.shows("^rank 170 ran out of memory")
            t.shows(r"512 processes: (509 running|508 running, 1 silent), 1 failed, 1 killed, 1 oom")
            lines = t.shows("1 silent")
            self.assertLessEqual(max(map(len, lines)), 80)
            self.assertEqual(len(lines), 24)
            self.assertRegex(lines[4], r"^ +0 +0 running +\d+ s ")
            self.assertRegex(lines[-1], "1 of 512  sorted by rank  h help  q quit")
            t.keys("End")
            self.assertRegex(t.shows("512 of 512")[-2], "^ +511 +0 running")
            t.resize(200, 60)
            lines = t.shows("holds +pid +host")
            self.assertLessEqual(max(map(len, lines)), 200)
            self.assertGreater(max(map(len, lines)), 150)
            # A screen may be caught half drawn.
            wait_for(lambda: sum(" running " in line for line in t.screen()[4:]) == 55)
            t.keys("s")  # the worst state first
            lines = t.shows("sorted by state")
            self.assertEqual([line.split()[:3] for line in lines[4:9]],
                             [["170", "0", "oom"], ["7", "0", "killed"], ["70", "0", "silent"], ["270", "0", "failed"], ["0", "0", "running"]])
            t.keys("/", "rank:500 ")
            t.keys("Enter")
            wait_for(lambda: any(re.search(r"^ *500 .* \+1.0M +8\d{4} ", line) for line in t.screen()))
            t.resize(80, 24)
            lines = t.shows("filter: rank:500")
            self.assertLessEqual(max(map(len, lines)), 80)
            t.keys("Enter")
            t.shows(r"rank 500 +pid")
            lines = t.shows(r"main +train.py:10")
            self.assertRegex("\n".join(lines), r"(?s)rank 500 +pid \d+ on .*peaks .*stacks .*main +train.py:10")
            t.keys("?")
            t.shows("Ctrl-L")
            t.keys("Escape")
            t.shows("grows by 1.0 MiB")
            t.keys("Escape")
            t.shows("sorted by state")
            t.keys("q")
            wait_for(t.has_ended)
        with open(os.path.join(self.dir, "stderr")) as f:
            self.assertEqual(f.read(), "")

    def test_colour_only_if_it_is_wanted(self):
        with self.writers(1):
            t = Terminal(self, 80, 24, MEMTRACE, "top", self.traces)
            t.shows("1 running")
            self.assertIn("\x1b[36m", "\n".join(t.screen("-e")))
            t.keys("q")
            wait_for(t.has_ended)
            t = Terminal(self, 80, 24, MEMTRACE, "top", self.traces, NO_COLOR="1")
            t.shows("1 running")
            self.assertNotRegex("\n".join(t.screen("-e")), "\x1b\\[[0-9;]*3[0-7]m")
            t.keys("q")
            wait_for(t.has_ended)

    def test_a_terminal_of_two_columns(self):
        """The detail of a process is drawn, and keys are answered."""
        with self.writers(2):
            t = Terminal(self, 2, 10, MEMTRACE, "top", self.traces)
            for key in "Enter", "q", "q":
                time.sleep(0.5)
                t.keys(key)
            wait_for(t.has_ended)

    def test_a_terminal_that_is_not_known(self):
        with self.writers(1):
            t = Terminal(self, 80, 24, "env", "TERM=no-such-terminal", MEMTRACE, "top", self.traces)
            wait_for(t.has_ended)
        with open(os.path.join(self.dir, "stderr")) as f:
            self.assertRegex(f.read(), 'the terminal "no-such-terminal" is not known here: set TERM, or use --once')


class Frames(Live):
    def test_json_is_what_the_headers_say(self):
        """512 processes, held while an independent reader reads their headers."""
        with self.writers(512, "grows=3"):
            pids = [r["pid"] for r in self.frame()["ranks"]]
            self.assertEqual(len(set(pids)), 512)
            for pid in pids:
                os.kill(pid, signal.SIGSTOP)
            start = time.monotonic()
            frame = self.frame("--silent", "3600")
            self.assertLess(time.monotonic() - start, 60)
            names = ("device_memory_bytes", "allocated_bytes", "peak.allocated_bytes", "reserved_bytes", "peak.reserved_bytes", "other_bytes",
                     "untracked_bytes", "peak.device_bytes", "allocs", "frees", "ooms")
            seen = set()
            for r in frame["ranks"]:
                trace = mtr.Trace(r["trace"])
                said = tuple(r["peak"][n[5:]] if n.startswith("peak.") else r[n] for n in names)
                self.assertEqual(said, trace.device[0][:11])
                self.assertEqual((r["rank"], r["pid"], r["run"], r["host"], r["state"]), (trace.rank, trace.pid, trace.run_id, trace.host, "running"))
                self.assertEqual(r["device_bytes"], r["reserved_bytes"] + r["other_bytes"] + r["untracked_bytes"])
                self.assertEqual(r["records"], sum(min(s[1], s[2]) for s in trace.segments))
                seen.add(r["rank"])
            self.assertEqual(seen, set(range(512)))

    def test_the_tail_of_each_process(self):
        """Growth by hand: 1 MiB a step; of 80 GiB, 500 MiB are untracked, and a step's peak is 10 MiB and 4 KiB a rank above its floor."""
        with self.writers(3, "grows=2"):
            def known():
                rows = self.frame()["ranks"]
                return all(r["growth_per_step_bytes"] is not None for r in rows) and rows
            steady, _, growing = sorted(wait_for(known), key=lambda r: r["rank"])
            self.assertEqual((steady["growth_per_step_bytes"], steady["steps_until_full"]), (0, None))
            self.assertEqual(growing["growth_per_step_bytes"], MiB)
            # The last complete step is the one before the present step; it began with a MiB for each step before it.
            peak = (growing["step"] - 2) * MiB + 10 * MiB + 2 * 4096
            self.assertEqual(growing["steps_until_full"], ((80 << 30) - 500 * MiB - peak) // MiB)
            self.assertEqual(sum(growing["by_category"].values()), growing["recent_peak_bytes"])

    def test_damaged_traces_are_shown_as_that(self):
        with self.writers(2):
            time.sleep(1)
        intact = self.paths()
        with open(intact[0], "rb") as f:
            whole = f.read()
        for name, data in (("empty", b""), ("head", whole[:3000]), ("text", b"not a trace" * 1000), ("version", whole[:8] + b"\x63" + whole[9:]),
                           ("cut", whole[:70000]), ("noise", whole[:9000] + os.urandom(len(whole) - 9000))):
            with open(os.path.join(self.traces, name + ".mtr"), "wb") as f:
                f.write(data)
        os.symlink("/nowhere", os.path.join(self.traces, "link.mtr"))
        os.mkdir(os.path.join(self.traces, "folder.mtr"))
        os.mkfifo(os.path.join(self.traces, "pipe.mtr"))
        rows = {os.path.basename(r["trace"])[:-4]: r for r in self.frame()["ranks"]}
        self.assertEqual(len(rows), 11)
        for name in "empty", "head", "text", "version", "link", "folder", "pipe":
            self.assertEqual(rows[name]["state"], "damaged", name)
            self.assertIn(name, rows[name]["why"])
        text = self.run_([MEMTRACE, "top", self.traces], COLUMNS=100).stdout
        self.assertIn("7 damaged", text.splitlines()[0])
        self.assertRegex(text, r"damaged  this memtrace reads version 1, version.mtr has version 99")
        self.assertLessEqual(max(map(len, text.splitlines())), 100)

    def test_what_is_said_without_traces(self):
        for arguments, said in (((self.traces,), "has no traces.*memtrace run -o .* -- COMMAND"), (("/nowhere",), "cannot open /nowhere"),
                                ((), "start a job with memtrace run"), ((self.traces, self.traces), "one directory")):
            done = self.run_([MEMTRACE, "top", *arguments], status=2)
            self.assertRegex(done.stderr, said)
            self.assertEqual(done.stdout, "")

    def test_the_directory_is_found(self):
        """MEMTRACE_DIR, also if it has nothing new; without it the newest of memtrace and memtrace-*."""
        with self.writers(1):
            self.assertIn("1 running", self.run_([MEMTRACE, "top"], MEMTRACE_DIR=self.traces).stdout)
            os.symlink(self.traces, os.path.join(self.dir, "memtrace-77"))
            self.assertRegex(self.run_([MEMTRACE, "top"]).stdout, "1 running  in memtrace-77")
            os.mkdir(os.path.join(self.dir, "older"))
            self.assertIn("older has no traces", self.run_([MEMTRACE, "top"], status=2, MEMTRACE_DIR="older").stderr)

    def test_metrics_are_the_frame(self):
        """Each sample once, by renaming, with the values of the JSON."""
        path = os.path.join(self.dir, "memtrace.prom")
        with self.writers(4, "fails=1"):
            wait_for(lambda: self.states().get(1) == "oom")
            for r in self.frame()["ranks"]:
                if r["state"] == "running":
                    os.kill(r["pid"], signal.SIGSTOP)
            rows = self.frame("--prometheus", path)["ranks"]
        with open(path) as f:
            text = f.read()
        samples = dict(re.findall(r"^(\w+\{.*\}) (\S+)$", text, re.M))
        self.assertEqual(len(samples), sum(not line.startswith("#") for line in text.splitlines()))
        for r in rows:
            labels = 'run="%s",rank="%d"' % (r["run"], r["rank"])
            device = labels + ',device="0"'
            self.assertEqual(samples['memtrace_state{%s,state="%s"}' % (labels, r["state"])], "1")
            for metric, value in (("allocated_bytes", r["allocated_bytes"]), ("device_peak_bytes", r["peak"]["device_bytes"]),
                                  ("out_of_memory_total", r["ooms"]), ("growth_bytes_per_step", r["growth_per_step_bytes"])):
                self.assertEqual(float(samples["memtrace_%s{%s}" % (metric, device)]), value, metric)
        self.assertEqual(glob.glob(path + ".*"), [])

    def test_metrics_are_written_again_each_interval(self):
        """By renaming: another file each time, which is whole whenever it is read; its time goes on."""
        path = os.path.join(self.dir, "memtrace.prom")
        seen = {}
        with self.writers(2):
            with subprocess.Popen([MEMTRACE, "top", "--prometheus", path, "--interval", "1", self.traces], stdout=subprocess.PIPE, text=True) as p:
                def three_files():
                    try:
                        with open(path) as f:
                            seen.setdefault(os.fstat(f.fileno()).st_ino, f.read())
                    except FileNotFoundError:
                        pass
                    return len(seen) >= 3
                try:
                    wait_for(three_files)
                finally:
                    p.terminate()
        times = []
        for text in seen.values():
            self.assertTrue(text.endswith("\n"))
            self.assertEqual(len(re.findall(r"(?m)^memtrace_allocated_bytes\{", text)), 2)
            self.assertEqual(len(re.findall(r"(?m)^memtrace_state\{.*state=\"running\"\} 1$", text)), 2)
            times.append(max(map(float, re.findall(r"(?m)^memtrace_last_event_timestamp_seconds\{.*\} (\S+)$", text))))
        self.assertEqual(times, sorted(set(times)))
        self.assertEqual(glob.glob(path + ".*"), [])

    def test_objects_until_nothing_runs(self):
        with self.writers(1):
            p = subprocess.Popen([MEMTRACE, "top", "--json", "--interval", "1", self.traces], stdout=subprocess.PIPE, text=True)
            first = json.loads(p.stdout.readline())
            second = json.loads(p.stdout.readline())
            self.assertLess(first["time_s"], second["time_s"])
            self.assertLess(first["ranks"][0]["allocs"], second["ranks"][0]["allocs"])
        last = [json.loads(line) for line in p.communicate(timeout=60)[0].splitlines()][-1]
        self.assertEqual([r["state"] for r in last["ranks"]], ["killed"])
        self.assertEqual(p.returncode, 0)

    def test_a_process_on_another_host_is_waited_for(self):
        """Its last event is 100 seconds old, as in a long compilation: it may run. After two hours nobody waits."""
        with self.writers(1):
            time.sleep(1)
        with open(self.paths()[0], "r+b") as f:
            f.seek(96)      # of the header: the host, and the start of its clock
            f.write(b"elsewhere".ljust(64, b"\0"))

        def started(seconds):
            with open(self.paths()[0], "r+b") as f:
                f.seek(40)
                f.write(struct.pack("<Q", int((time.time() - seconds) * 1e9)))

        started(100)
        commands = ([MEMTRACE, "top", "--json", "--interval", "1", self.traces], [MEMTRACE, "report", "--follow", self.traces])
        both = [subprocess.Popen(c, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) for c in commands]
        try:
            for _ in range(3):
                row, = json.loads(both[0].stdout.readline())["ranks"]
                self.assertEqual((row["state"], row["host"]), ("unknown", "elsewhere"))
            self.assertRegex(both[1].stdout.readline(), "allocated .*, no event for (9\d s|\d min)")
            time.sleep(2)
            self.assertEqual([p.poll() for p in both], [None, None])
        finally:
            started(7200)
        for p in both:
            _, said = p.communicate(timeout=60)
            self.assertIn("rank 0 on elsewhere had no event for more than 60 min", said)
            self.assertEqual(p.returncode, 0)
        self.assertEqual(self.states(), {0: "unknown"})


class RealJob(Live):
    def check_text(self, counted, row):
        """The bar has the shares of a GPU of 2 GiB, to a cell; the numbers are PyTorch's. Until it is full, each step takes 4 MiB."""
        line, = re.findall(r"(?m)^ +0 running .*$", self.run_([MEMTRACE, "top", "--once", self.traces], COLUMNS=200).stdout)
        bar, = re.findall("[█▓░·]+", line)
        for sign, size in ("█", counted["allocated"]), ("▓", counted["reserved"] - counted["allocated"]), ("·", (2 << 30) - row["device_bytes"]):
            self.assertAlmostEqual(bar.count(sign), len(bar) * size / (2 << 30), delta=1, msg=(sign, line))
        sizes = [float(text) for text in re.findall(r" (\d+(?:\.\d+)?)M", line.split(bar)[1])]
        for size in counted["allocated"], counted["reserved"], row["device_bytes"]:
            self.assertTrue(any(abs(size / MiB - shown) <= 0.5 for shown in sizes), (size, line))
        self.assertRegex(line, r" 2\.0G .* \+4\.0M ")
        outside = row["device_bytes"] - counted["reserved"]
        self.assertAlmostEqual(row["steps_until_full"], ((2 << 30) - outside - counted["peak"]) / (4 * MiB), delta=1)

    def test_beside_a_real_job(self):
        """PyTorch's own counters, a leak of 4 MiB a step, and the report when it ends."""
        command = [MEMTRACE, "simulate", "-o", self.traces, "--memory", "2GiB", "--", python(), os.path.join(JOBS, "grows.py"), "24", self.dir]
        with subprocess.Popen(command, env=environment(OMP_NUM_THREADS=1), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as job:
            try:
                counted = json.loads(job.stdout.readline())
                follow = subprocess.Popen([MEMTRACE, "report", "--follow", self.traces], stdout=subprocess.PIPE, text=True)
                row = wait_for(lambda: [r for r in self.frame()["ranks"] if r["allocated_bytes"] == counted["allocated"]], 20)[0]
                self.assertEqual(row["reserved_bytes"], counted["reserved"])
                self.assertEqual(row["peak"]["allocated_bytes"], counted["peak"])
                self.assertEqual(row["growth_per_step_bytes"], 4 * MiB)
                self.assertEqual((row["state"], row["simulated"], row["step"]), ("running", True, 24))
                self.assertEqual(row["by_owner"]["pytorch"], counted["reserved"])
                self.assertEqual(sum(row["by_owner"].values()), row["device_bytes"])
                self.check_text(counted, row)
                line = next(line for line in follow.stdout if "step 24 " in line)
                self.assertRegex(line, r"step 24  allocated .*, grows by 4.0 MiB a step: full in \d+ steps at most")
            finally:
                open(os.path.join(self.dir, "go"), "w").close()
                job.communicate(timeout=120)
            said = follow.communicate(timeout=120)[0]
        self.assertEqual(job.returncode, 0)
        self.assertEqual(follow.returncode, 0)
        self.assertRegex(said, r"(?m)^by category")
        self.assertEqual([r["state"] for r in self.frame()["ranks"]], ["ended"])


if __name__ == "__main__":
    unittest.main()
