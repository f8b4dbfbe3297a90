"""Builds and runs every test; the last line is "N passed, N failed". run.py [--all] [PATTERN...]"""
import os
import re
import shutil
import subprocess
import sys
import time
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZED = "address,undefined"
passed, failed, skipped = 0, [], []


def section(title):
    print("\n== " + title, flush=True)


def step(name, command, **env):
    """One command that must succeed; counts as one test."""
    global passed
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        failed.append(name)
        print(done.stdout)
    else:
        passed += 1
    print("%s  %s" % ("ok    " if done.returncode == 0 else "FAILED", name), flush=True)
    return done.returncode == 0


def make(*arguments):
    return ["make", "-s", "-j%d" % (os.cpu_count() or 2), *arguments]


def with_clang():
    """clang builds everything, and the programs of `make fuzz`."""
    name = "make CC=clang"
    if shutil.which("clang"):
        step(name, make("CC=clang", "all", "fuzz-targets"))
        return
    print("skip    %s: there is no clang" % name, flush=True)
    skipped.append((name, "there is no clang"))


def unit_tests(folder, title):
    """Runs every cmocka binary of a build, tests/*/test_x or tests/unit/*/test_x; counts their tests."""
    global passed
    section(title)
    tests = os.path.join(ROOT, folder, "tests")
    paths = [os.path.join(d, f) for d, _, files in os.walk(tests) for f in files if f.startswith("test_") and "." not in f]
    for path in sorted(paths):
        name = os.path.relpath(path, tests)
        done = subprocess.run([path], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
        good = len(re.findall(r"^\[ +OK \]", done.stdout, re.M))
        bad = re.findall(r"^\[  FAILED  \] (\w+)", done.stdout, re.M)
        passed += good
        if done.returncode or bad:
            failed.append(name)
            print(done.stdout)
        print("%s  %s: %d tests" % ("ok    " if not done.returncode else "FAILED", name, good), flush=True)


class Result(unittest.TextTestResult):
    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def report(self, test, word, note=""):
        print("%-6s  %s  %.1f s %s" % (word, test.id(), time.monotonic() - getattr(self, "began", time.monotonic()), note), flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.report(test, "ok")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.report(test, "FAILED")

    def addError(self, test, err):
        super().addError(test, err)
        self.report(test, "FAILED")

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.report(test, "FAILED", str(subtest))

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.report(test, "skip", reason)


def real_jobs(patterns):
    global passed
    section("real jobs and the command line")
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    import harness      # the other folders of tests/ are on the path then
    suite = unittest.TestSuite()
    for folder in ("cli", "real"):
        path = os.path.join(ROOT, "tests", folder)
        if os.path.isdir(path):
            suite.addTests(unittest.TestLoader().discover(path, "test_*.py"))
    if patterns:
        def flat(s):
            for t in s:
                yield from flat(t) if isinstance(t, unittest.TestSuite) else (t,)
        suite = unittest.TestSuite(t for t in flat(suite) if any(p in t.id() for p in patterns))
    result = unittest.TextTestRunner(stream=open(os.devnull, "w"), resultclass=Result).run(suite)
    bad = {t.id() for t, _ in result.failures + result.errors}
    for test, text in result.failures + result.errors:
        print("\n-- %s\n%s" % (test.id(), text))
    failed.extend(sorted(bad))
    skipped.extend(result.skipped)
    passed += result.testsRun - len(result.skipped) - len({b.split(" (")[0] if " [" in b else b for b in bad})


def main():
    patterns = [a for a in sys.argv[1:] if not a.startswith("-")]
    if set(sys.argv[1:]) - set(patterns) - {"--all"}:
        print(__doc__)
        return 2
    if "--all" in sys.argv:
        os.environ["ALL_JOBS"] = "1"
    section("build")
    if not step("make", make("all", "units")):
        print("0 passed, 1 failed")
        return 1
    if not patterns:
        step("lint", make("lint"))
        with_clang()
        unit_tests("build", "unit tests")
        if step("make SAN=" + SANITIZED, make("SAN=" + SANITIZED, "units")):
            unit_tests("build-" + SANITIZED.replace(",", "-"), "unit tests under " + SANITIZED)
        recorder = sorted(os.listdir(os.path.join(ROOT, "tests", "preload")))
        recorder = ["build-thread/tests/preload/" + name[:-2] for name in recorder if re.match(r"test_.*\.c$", name)
                    and name != "test_resolve.c"]       # it stands in for functions that ThreadSanitizer calls before it is ready
        if step("make SAN=thread", make("SAN=thread", *recorder)):
            unit_tests("build-thread", "the preload's units under ThreadSanitizer")
    real_jobs(patterns)
    if failed:
        print("\nfailed:\n  " + "\n  ".join(failed))
    print("\n%d passed, %d failed" % (passed, len(failed)) + (", %d skipped" % len(skipped) if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
