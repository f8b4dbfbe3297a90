"""make conformance: other people's tests of memory, unmodified, on the simulated device; writes docs/conformance.md.

conformance.py [--again|--alone] [PART...]: the files whose path contains a PART (default: all). Results are kept in build/conformance; a
file that has one is run again with --again only. conformance_table.py has the files and the reasons.
"""
import argparse
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from conformance_page import write_page  # noqa: E402
from conformance_table import FILES, PROJECTS, reason  # noqa: E402
from harness import BUILD, MEMTRACE, ROOT, environment, python  # noqa: E402

CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "memtrace", "conformance")
RESULTS = os.path.join(BUILD, "conformance")
TEST_LIMIT, FILE_LIMIT = 600, 5400  # seconds
ALONE_AT_MOST = 40
LEFT_OUT_AT_MOST = 8


def run(*command, **keys):
    return subprocess.run(command, check=True, stdout=subprocess.DEVNULL, **keys)


def from_debian(suite, package, version, folder):
    """The source package of a Debian release, checked by apt; its lists are kept apart from the system's."""
    apt = os.path.join(folder, "apt")
    os.makedirs(os.path.join(apt, "lists", "partial"))
    os.makedirs(os.path.join(apt, "cache", "archives", "partial"))
    with open(os.path.join(apt, "sources.list"), "w") as f:
        f.write("deb-src [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian %s main\n" % suite)
    options = [part for key, value in (("Etc::SourceList", apt + "/sources.list"), ("Etc::SourceParts", "/dev/null"), ("State::lists", apt + "/lists"),
                                       ("Cache", apt + "/cache")) for part in ("-o", "Dir::%s=%s" % (key, value))]
    run("apt-get", *options, "-qq", "update")
    run("apt-get", *options, "-qq", "source", "--download-only", package, cwd=folder, stderr=subprocess.DEVNULL)
    found = glob.glob(os.path.join(folder, "%s_%s*.orig.tar.*" % (package, version)))
    found = [path for path in found if not path.endswith(".asc")]
    if not found:
        raise SystemExit("conformance: Debian's %s has no %s %s" % (suite, package, version))
    return found[0]


def from_pypi(package, version, folder, pip):
    run(pip, "-m", "pip", "download", "-q", "--disable-pip-version-check", "--no-deps", "--no-binary", package, "%s==%s" % (package, version), "-d", folder)
    return glob.glob(os.path.join(folder, "*.tar.gz"))[0]


def source_of(project, pip):
    """The folder with the project's tests, or None."""
    given = os.environ.get(project.given)
    if given or not project.archive:
        return given or None
    folder = os.path.join(CACHE, "%s-%s" % (project.name, project.version))
    if not os.path.exists(os.path.join(folder, "complete")):
        shutil.rmtree(folder, True)
        os.makedirs(folder)
        kind, *where = project.archive.split(":")
        archive = from_debian(*where, project.version, folder) if kind == "debian" else from_pypi(*where, project.version, folder, pip)
        os.makedirs(os.path.join(folder, "tree"))
        run("tar", "-xf", archive, "-C", os.path.join(folder, "tree"), "--strip-components=1")
        # The sources' own package, which is not built, would be imported instead of the installed one.
        shutil.rmtree(os.path.join(folder, "tree", "torch"), True)
        open(os.path.join(folder, "complete"), "w").close()
    return os.path.join(folder, "tree")


def python_of(project):
    """A Python with the project's version of PyTorch and what its tests import, apart from the environment that other tests use."""
    base, folder = python(project.torch), os.path.join(CACHE, "python-" + project.name)
    mark = os.path.join(folder, "complete")
    if not os.path.exists(mark) or open(mark).read() != project.needs:
        if not os.path.exists(mark):
            shutil.rmtree(folder, True)
            run(base, "-m", "venv", folder)
        site = subprocess.run([base, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"], check=True, stdout=subprocess.PIPE, text=True).stdout
        own = glob.glob(os.path.join(folder, "lib", "python3*", "site-packages"))[0]
        with open(os.path.join(own, "torch.pth"), "w") as f:
            f.write(site)
        run(os.path.join(folder, "bin", "python"), "-m", "pip", "install", "-q", "--disable-pip-version-check", *project.needs.split())
        with open(mark, "w") as f:
            f.write(project.needs)
    return os.path.join(folder, "bin", "python")


def command_of(file, path, executable, which):
    """pytest for the file, or the file as a program that calls pytest with the options of PYTEST_ADDOPTS."""
    folder = os.path.dirname(path)
    select = ["-k", file.select] if file.select and not which else []
    if file.program:
        return [executable, path, "--use-pytest", *[part for name in which for part in ("--pytest-single-test", os.path.join(folder, name))], *select]
    return [executable, "-m", "pytest", *([os.path.join(folder, name) for name in which] or [os.path.basename(path)]), *select]


def pytest(file, source, executable, out, *which, limit=FILE_LIMIT, **settings):
    """Runs tests of FILE; the plugin writes a line a test to OUT."""
    path, traces, here = os.path.join(source, file.path), out + ".traces", os.path.dirname(os.path.abspath(__file__))
    options = "-q -p conformance_plugin -p no:cacheprovider --timeout %d %s" % (TEST_LIMIT, PROJECTS[file.project].options)
    options += " --assert=plain" if "CONFORMANCE_LEAVE_OUT" in settings else ""
    command = [MEMTRACE, "simulate", "-o", traces, "--gpu", "A100-40GB", "--gpus", str(file.gpus), "--", *command_of(file, path, executable, which)]
    if file.slow:
        settings["PYTORCH_TEST_WITH_SLOW"] = 1
    with open(out + ".log", "w") as log:
        try:
            subprocess.run(command, cwd=os.path.dirname(path), stdout=log, stderr=subprocess.STDOUT, timeout=limit,
                           env=environment(CONFORMANCE_OUT=out, CONFORMANCE_GPUS=file.gpus, PYTHONPATH="%s:%s" % (here, source), HF_HUB_OFFLINE=1,
                                           PATH="%s:%s" % (os.path.join(here, "programs"), os.environ["PATH"]), PYTORCH_PRINT_REPRO_ON_FAILURE=0,
                                           PYTEST_ADDOPTS=options, **settings))
        except subprocess.TimeoutExpired:
            log.write("conformance: ended after %d s\n" % limit)
    shutil.rmtree(traces, True)


def read(out):
    """The result of each test; an error after a test counts once, with it."""
    rows = {}
    if os.path.exists(out):
        for line in open(out):
            row = json.loads(line)
            if row["outcome"] == "failed" or row["test"] not in rows:
                rows.setdefault(row["test"], row)
                if rows[row["test"]]["outcome"] != "failed":
                    rows[row["test"]] = row
    return rows


def name_of(file):
    return file.project + "-" + re.sub(r"\W+", "-", file.path)


def alone(file, source, executable, out, row, **settings):
    """The result of one test in a process of its own."""
    pytest(file, source, executable, out, row["test"].split("/")[-1], limit=2 * TEST_LIMIT, **settings)
    rows = list(read(out).values())
    if os.path.exists(out):
        os.remove(out)
    return rows[0] if rows else {"outcome": "no result"}


def without_values(file, source, executable, out, row):
    """What a test does whose comparisons of values are left out one by one: "passed", or where it fails."""
    lines, path = [row["line"]], row["file"]
    while len(lines) <= LEFT_OUT_AT_MOST:
        again = alone(file, source, executable, out, row, CONFORMANCE_LEAVE_OUT="%s:%s" % (path, ",".join(map(str, lines))))
        if again["outcome"] != "failed" or reason(again).name != "values" or again["file"] != path or again["line"] in lines:
            break
        lines.append(again["line"])
    return {"outcome": again["outcome"], "left_out": len(lines), "statement": again.get("statement", "")}


def run_alone(file, source, executable, out, rows):
    """Runs alone each test that failed for a reason that another test may have caused: what fails then counts. And without its comparisons
    of values each that compares memory behind one."""
    failed = [row for row in rows if row["outcome"] == "failed"]
    for row in [row for row in failed if reason(row).name in ("memory", "unexplained")][:ALONE_AT_MOST]:
        again = alone(file, source, executable, out, row)
        if again["outcome"] == "failed":
            row.update(again)
        row["alone"] = again["outcome"]
    for row in failed:
        if reason(row).name == "values" and row.get("memory_behind") and not file.program:
            row["without"] = without_values(file, source, executable, out, row)


def run_file(file, only_alone):
    project = PROJECTS[file.project]
    executable = python_of(project)
    source = source_of(project, executable)
    result, out = (os.path.join(RESULTS, name_of(file) + end) for end in (".json", ".jsonl"))
    if source is None or not os.path.exists(os.path.join(source, file.path)):
        print("%s %s: its source is not there: set %s" % (file.project, file.path, project.given))
        return
    if not only_alone:
        if os.path.exists(out):
            os.remove(out)
        pytest(file, source, executable, out)
    rows = read(out)
    run_alone(file, source, executable, out + ".alone", rows.values())
    with open(result, "w") as f:
        json.dump({"project": file.project, "path": file.path, "tests": list(rows.values())}, f, indent=1)
    counts = collections.Counter(row["outcome"] if row["outcome"] != "failed" else "failed: " + reason(row).name for row in rows.values())
    print("%s %s: %s" % (file.project, file.path, ", ".join("%d %s" % (n, what) for what, n in sorted(counts.items())) or "no test ran"), flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--again", action="store_true", help="run files that have a result, too")
    parser.add_argument("--alone", action="store_true", help="of files that have a result, run again only the tests that are run alone")
    parser.add_argument("parts", nargs="*", metavar="PART")
    arguments = parser.parse_args()
    os.makedirs(RESULTS, exist_ok=True)
    for file in FILES:
        wanted = not arguments.parts or any(part in file.project + "/" + file.path for part in arguments.parts)
        if wanted and (arguments.again or arguments.alone or not os.path.exists(os.path.join(RESULTS, name_of(file) + ".json"))):
            run_file(file, arguments.alone)
    results = [json.load(open(path)) for path in (os.path.join(RESULTS, name_of(file) + ".json") for file in FILES) if os.path.exists(path)]
    write_page(os.path.join(ROOT, "docs", "conformance.md"), results)


if __name__ == "__main__":
    main()
