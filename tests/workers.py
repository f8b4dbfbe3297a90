"""Runs the modules of unittest in several processes: a process of its own for each module, so many at once as there are workers, the longest first.

A process says on a pipe what became of each test. A test that was found and of which nothing was said is a failure, with its module's name: its process has
died or was ended. A test or a class with the mark `alone` of harness.py runs when the other processes have ended.

workers.py NAME...: such a process; its standard input says in JSON which tests it runs."""
import collections
import glob
import json
import os
import signal
import subprocess
import sys
import threading
import time
import unittest

# Modules that make the same files in build/ or in the cache are one process, in this order.
TOGETHER = ("test_dist", "test_old_glibc", "test_examples", "test_install", "test_targets"), ("test_hooks_complete", "test_lookups")
# What the jobs of a module may take of the machine's memory, in bytes: 4.9 GiB is the most that was measured (test_small_kernels).
ROOM = 6 << 30
# A process without a word for this many seconds is ended; the second number is that of `make test-all`, whose jobs have limits of an hour.
SILENCE = 2400, 4000


def flat(suite):
    for test in suite:
        yield from flat(test) if isinstance(test, unittest.TestSuite) else (test,)


def of_module(name):
    return list(flat(unittest.defaultTestLoader.loadTestsFromName(name)))


def alone(test):
    return getattr(getattr(test, test._testMethodName, None), "runs_alone", getattr(test, "runs_alone", False))


def processes():
    """As many as processors, if the memory has ROOM for each."""
    return max(1, min(os.cpu_count() or 1, os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // ROOM))


# ---- the process of some modules

class Result(unittest.TextTestResult):
    pipe = None

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def report(self, test, word, note="", text=""):
        whole = test.test_case if isinstance(test, unittest.case._SubTest) else test
        seconds = time.monotonic() - getattr(self, "began", time.monotonic())
        self.pipe.write(json.dumps({"test": whole.id(), "id": test.id(), "word": word, "seconds": seconds, "note": note, "text": text}) + "\n")
        self.pipe.flush()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.report(test, "ok")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.report(test, "FAILED", text=self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self.report(test, "FAILED", text=self.errors[-1][1])

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            failed = issubclass(err[0], test.failureException)
            self.report(subtest, "FAILED", str(subtest), (self.failures if failed else self.errors)[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.report(test, "skip", reason)

    def addExpectedFailure(self, test, err):
        super().addExpectedFailure(test, err)
        self.report(test, "ok", "fails, as expected")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.report(test, "FAILED", "did not fail, as was expected", "did not fail")


def work():
    task = json.load(sys.stdin)
    with open(os.devnull) as nothing:
        os.dup2(nothing.fileno(), 0)
    os.set_inheritable(task["pipe"], False)     # the pipe ends when this process does, whatever its children do
    Result.pipe = os.fdopen(task["pipe"], "w")
    import harness      # the other folders of tests/ are on the path then
    del harness
    for folder in task["folders"]:
        sys.path.insert(0, folder)
    wanted = collections.Counter(task["tests"])
    tests = [t for name in task["modules"] for t in of_module(name) if wanted[t.id()] and alone(t) == task["alone"]]
    unittest.TextTestRunner(stream=open(os.devnull, "w"), resultclass=Result).run(unittest.TestSuite(tests))


# ---- all of them

class Task:
    """Some tests of one process."""

    def __init__(self, modules, tests, alone):
        self.modules, self.alone = modules, alone
        self.name, self.tests, self.seconds = " ".join(modules), [t.id() for t in tests], 0


def tasks(folders, patterns=(), together=TOGETHER):
    """One for each module or group of modules that has tests; a second one for its tests with the mark `alone`."""
    for folder in folders:
        if folder not in sys.path:
            sys.path.insert(0, folder)
    names = [os.path.basename(path)[:-3] for folder in folders for path in sorted(glob.glob(os.path.join(folder, "test_*.py")))]
    grouped = [[n for n in group if n in names] for group in together]
    groups = grouped + [[n] for n in names if not any(n in group for group in grouped)]
    found = []
    for group in groups:
        tests = [(n, t) for n in group for t in of_module(n) if not patterns or any(p in t.id() for p in patterns)]
        for by_itself in False, True:
            chosen = [(n, t) for n, t in tests if alone(t) == by_itself]
            if chosen:
                found.append(Task(list(dict.fromkeys(n for n, _ in chosen)), [t for _, t in chosen], by_itself))
    return found


class Workers:
    """`passed`, `failed` and `skipped` are what became of the tests; `texts` has the text of each failure."""

    def __init__(self, folders, order=None, silence=None):
        self.folders, self.order = folders, order or {}
        self.silence = silence or SILENCE["ALL_JOBS" in os.environ]
        self.passed, self.failed, self.skipped, self.texts = 0, [], [], []
        self.lock, self.live, self.ended = threading.Lock(), set(), False

    def say(self, line):
        with self.lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    def run(self, found, count):
        """Runs the tasks in COUNT processes at once, and those that must be alone one after another."""
        self.ended = False
        waiting = collections.deque(sorted((t for t in found if not t.alone), key=lambda t: -self.order.get(t.name, float("inf"))))
        last = collections.deque(t for t in found if t.alone)
        try:
            for queue, processes in (waiting, count), (last, 1):
                threads = [threading.Thread(target=self.take, args=(queue,)) for _ in range(min(processes, len(queue)))]
                for thread in threads:
                    thread.start()
                for thread in threads:
                    thread.join()
        finally:
            self.ended = True
            with self.lock:
                for process in self.live:
                    end(process)
        for task in (*waiting, *last):
            self.fail(task.name, "its process was not started")

    def take(self, queue):
        while not self.ended:
            try:
                task = queue.popleft()
            except IndexError:
                return
            try:
                self.one(task)
            except Exception as e:      # of this file: the tests of this task count as failed
                self.fail(task.name, "%s: %s" % (task.name, e))

    def fail(self, name, text):
        with self.lock:
            self.failed.append(name)
            self.texts.append((name, text))

    def one(self, task):
        """Runs the process of one task."""
        began = time.monotonic()
        from_it, to_us = os.pipe()
        process = subprocess.Popen([sys.executable, os.path.abspath(__file__), *task.modules], stdin=subprocess.PIPE, pass_fds=[to_us],
                                   start_new_session=True, text=True)
        os.close(to_us)
        with self.lock:
            self.live.add(process)
        said, silent = [], []
        try:
            process.stdin.write(json.dumps({"pipe": to_us, "folders": self.folders, "modules": task.modules, "tests": task.tests, "alone": task.alone}))
            process.stdin.close()
        except BrokenPipeError:
            pass        # it has died already, and will have said nothing
        with os.fdopen(from_it) as pipe:
            while True:
                timer = threading.Timer(self.silence, lambda: (silent.append(1), end(process)))
                timer.start()
                line = pipe.readline()
                timer.cancel()
                if not line.endswith("\n"):     # a part of a line is the last word of a process that was killed
                    break
                said.append(json.loads(line))
                self.say("%-6s  %s  %.1f s %s" % (said[-1]["word"], said[-1]["test"], said[-1]["seconds"], said[-1]["note"]))
        status = process.wait()
        with self.lock:
            self.live.discard(process)
        task.seconds = time.monotonic() - began
        if not self.ended:
            self.count(task, said, "said nothing for %d s and was ended" % self.silence if silent else "ended with status %d" % status if status else "")

    def count(self, task, said, died):
        """Every test of the task counts once: what failed in part has failed, and what was not heard of has failed with its module."""
        words = {}
        for row in said:
            # "setUpClass (test_x.Y)" speaks of all its tests, "setUpModule (test_x)" too.
            of_class = row["test"].partition(" (")[2].rstrip(")") if row["test"].startswith("setUp") else ""
            for name in [t for t in task.tests if t.startswith(of_class + ".")] if of_class else [row["test"]]:
                words.setdefault(name, set()).add(row["word"])
        bad = sorted({row["id"] for row in said if row["word"] == "FAILED"})
        left = [t for t in task.tests if t not in words]
        with self.lock:
            self.failed += bad
            self.texts += [(row["id"], row["text"]) for row in said if row["word"] == "FAILED"]
            self.passed += sum(words.get(t) == {"ok"} or words.get(t) == {"ok", "skip"} for t in task.tests)
            self.skipped += [t for t in task.tests if words.get(t) == {"skip"}]
        if died or left:
            text = "the process %s" % (died or "ended")
            if left:
                text += "; %d of its %d tests did not run: %s" % (len(left), len(task.tests), " ".join(left[:5]) + (" ..." if len(left) > 5 else ""))
            self.say("FAILED  %s: %s" % (task.name, text))
            self.fail(task.name, text)


def end(process):
    """Ends a process and those of its session that are in its group."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


if __name__ == "__main__":
    work()
