"""make coverage: the lines of preload/ and analyzer/ that the tests run, counted by gcov in a separate build. Jobs that end by exit() write
their counters, killed jobs do not, so the result is a lower bound. coverage.py [PATTERN...]: only these of the command line's tests and of the real
jobs. coverage.py --only-count: prints the counters of earlier runs."""
import collections
import glob
import json
import os
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = "build-coverage"
BAR = 90
os.environ["TEST_BUILD"] = os.path.join(ROOT, BUILD)     # read by harness.py and run.py

sys.path.insert(0, os.path.join(ROOT, "tests"))
import run  # noqa: E402


def build():
    """Optimised a little: the tests of estimates run through millions of operations."""
    return run.make("BUILD=" + BUILD, "LTO=", "LINK=--coverage", "CFLAGS=-O1 -g --coverage", "all", "units")


def forget():
    for path in glob.glob(os.path.join(ROOT, BUILD, "**", "*.gcda"), recursive=True):
        os.unlink(path)


def count():
    """{source: {line: times}} of the sources of the project that are not tests."""
    lines = collections.defaultdict(lambda: collections.defaultdict(int))
    notes = [p for folder in ("preload", "analyzer") for p in glob.glob(os.path.join(ROOT, BUILD, folder, "**", "*.gcno"), recursive=True)]
    for note in sorted(notes):
        out = subprocess.run(["gcov", "--json-format", "--stdout", note], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        for text in out.stdout.splitlines():
            for source in json.loads(text)["files"]:
                name = os.path.relpath(os.path.join(ROOT, source["file"]), ROOT)
                if name.startswith(("preload/", "analyzer/")):
                    for line in source["lines"]:
                        lines[name][line["line_number"]] += line["count"]
    return lines


def ranges(numbers):
    """[1, 2, 3, 7] as "1-3 7"."""
    found = []
    for n in sorted(numbers):
        if found and found[-1][1] == n - 1:
            found[-1][1] = n
        else:
            found.append([n, n])
    return " ".join("%d" % a if a == b else "%d-%d" % (a, b) for a, b in found)


def percent(hit, all_lines):
    return 100 * hit / all_lines if all_lines else 100


def show(lines):
    folders = collections.Counter(), collections.Counter()
    for name, counts in lines.items():
        hit = sum(1 for n in counts.values() if n)
        parts = os.path.dirname(name).split("/")
        for folder in {parts[0], "/".join(parts[:2]), "/".join(parts)}:
            folders[0][folder] += hit
            folders[1][folder] += len(counts)
    print("\n%-32s %8s %8s %8s" % ("folder and what is below it", "lines", "run", ""))
    for folder in sorted(folders[1]):
        print("%-32s %8d %8d %7.1f %%" % (folder + "/", folders[1][folder], folders[0][folder], percent(folders[0][folder], folders[1][folder])))
    print("\nfiles below %d %%, and their lines that were not run" % BAR)
    for name, counts in sorted(lines.items()):
        missed = [n for n, times in counts.items() if not times]
        share = percent(len(counts) - len(missed), len(counts))
        if share < BAR:
            print("%-44s %5.1f %%  %s" % (name, share, ranges(missed)))


def main():
    arguments = sys.argv[1:]
    if arguments != ["--only-count"]:
        if subprocess.run(build(), cwd=ROOT).returncode:
            return 1
        forget()
        run.unit_tests(BUILD, "unit tests")
        run.real_jobs(arguments)
        if run.failed:
            print("\nfailed, and counted all the same:\n  " + "\n  ".join(run.failed))
    show(count())
    return 0


if __name__ == "__main__":
    sys.exit(main())
