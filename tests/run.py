"""Builds and runs every test; the last line is "N passed, N failed"."""
import argparse
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import workers

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ORDER = os.path.join(ROOT, "tests", "order.txt")
SANITIZED = "address,undefined"
passed, failed, skipped = 0, [], []


def section(title):
    print("\n== " + title, flush=True)


def step(name, command, **env):
    """One command that must succeed; counts as one test."""
    global passed
    began = time.monotonic()
    done = subprocess.run(command, cwd=ROOT, env={**os.environ, **env}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        failed.append(name)
        print(done.stdout)
    else:
        passed += 1
    print("%s  %s  %.1f s" % ("ok    " if done.returncode == 0 else "FAILED", name, time.monotonic() - began), flush=True)
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


def unit_test(path):
    began = time.monotonic()
    done = subprocess.run(["timeout", "600", path], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    return path, done, time.monotonic() - began


def unit_runs(paths, analyzer):
    """Those of the recorder and of the simulated device have threads and clocks: they run one after another, and the analyzer's afterwards several at once."""
    together = sorted(p for p in paths if p.startswith(analyzer))
    yield from map(unit_test, sorted(set(paths) - set(together)))
    with concurrent.futures.ThreadPoolExecutor(workers.processes()) as pool:
        yield from pool.map(unit_test, together)


def unit_tests(folder, title):
    """Runs every cmocka binary of a build, tests/*/test_x or tests/unit/*/test_x; counts their tests."""
    global passed
    section(title)
    tests = os.path.join(ROOT, folder, "tests")
    paths = [os.path.join(d, f) for d, _, files in os.walk(tests) for f in files if f.startswith("test_") and "." not in f]
    for path, done, seconds in unit_runs(paths, os.path.join(tests, "unit")):
        name = os.path.relpath(path, tests)
        good = len(re.findall(r"^\[ +OK \]", done.stdout, re.M))
        bad = re.findall(r"^\[  FAILED  \] (\w+)", done.stdout, re.M)
        passed += good
        if done.returncode or bad:
            failed.append(name)
            print(done.stdout)
        print("%s  %s: %d tests  %.1f s" % ("ok    " if not done.returncode else "FAILED", name, good, seconds), flush=True)


def start_order():
    """{module: seconds}, as ORDER has them."""
    with open(ORDER) as f:
        return {line.split(None, 1)[1].strip(): float(line.split()[0]) for line in f if not line.startswith("#")}


def write_order(tasks):
    with open(ORDER, "w") as f:
        f.write("# Seconds of the process of each module, the longest first: tests/workers.py starts them in this order. `tests/run.py --order` writes it.\n")
        f.writelines("%4.0f %s\n" % (t.seconds, t.name) for t in sorted(tasks, key=lambda t: -t.seconds) if not t.alone)


def real_jobs(patterns, count=None, order=False):
    global passed
    section("real jobs and the command line")
    sys.path.insert(0, os.path.join(ROOT, "tests"))
    import harness      # the other folders of tests/ are on the path then
    del harness
    all_workers = workers.Workers([os.path.join(ROOT, "tests", folder) for folder in ("cli", "real")], start_order())
    tasks = workers.tasks(all_workers.folders, patterns)
    all_workers.run(tasks, count or workers.processes())
    for name, text in all_workers.texts:
        print("\n-- %s\n%s" % (name, text))
    failed.extend(sorted(all_workers.failed))
    skipped.extend(all_workers.skipped)
    passed += all_workers.passed
    if order:
        write_order(tasks)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--all", action="store_true", help="every job of the corpora, not a sample")
    parser.add_argument("-j", type=int, metavar="N", help="so many processes of real jobs and tests of the command line; else one for each processor")
    parser.add_argument("--order", action="store_true", help="write tests/order.txt, the order in which they start")
    parser.add_argument("patterns", nargs="*", metavar="PATTERN", help="only tests whose name has this in it, like test_truth")
    options = parser.parse_args()
    for number in signal.SIGTERM, signal.SIGHUP:    # the workers end too, as at an interrupt
        signal.signal(number, lambda *_: sys.exit(143))
    if options.order and options.patterns:
        parser.error("--order is for all tests")
    if options.all:
        os.environ["ALL_JOBS"] = "1"
    section("build")
    if not step("make", make("all", "units")):
        print("0 passed, 1 failed")
        return 1
    if not options.patterns:
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
    real_jobs(options.patterns, options.j, options.order)
    if failed:
        print("\nfailed:\n  " + "\n  ".join(failed))
    print("\n%d passed, %d failed" % (passed, len(failed)) + (", %d skipped" % len(skipped) if skipped else ""))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
