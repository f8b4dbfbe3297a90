"""The cost of each failing call of the recorder: faults.py prints the table of docs/reliability.md; --write puts it there.

Every row is a run of a program that reports the allocation and free of 20,000 blocks (40,001 events); it must end as without the recorder."""
import errno
import glob
import os
import re
import subprocess
import sys
import tempfile

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, TESTS)
import mtr                      # noqa: E402
from harness import PRELOAD     # noqa: E402
from hooks import build         # noqa: E402

PAGE = os.path.join(TESTS, "..", "docs", "reliability.md")
EVENTS = 40_001
# functions of the C library, and system calls, that libmemtrace.so makes; the error that each then returns
FUNCTIONS = {"mmap": "ENOMEM", "mremap": "ENOMEM", "munlock": "EPERM", "madvise": "EINVAL", "getrlimit": "EPERM", "pthread_create": "EAGAIN", "pthread_attr_init": "ENOMEM", "read": "EIO",
             "openat": "EMFILE", "getcwd": "ENOENT", "readlink": "EACCES", "on_exit": "ENOMEM", "dl_iterate_phdr": "EPERM"}
# the same for the thread that writes if no process can
WRITER = {"mkdirat": "EACCES", "openat": "EIO", "pwrite64": "ENOSPC", "ftruncate": "EIO"}
# system calls that a filter refuses in the job and in the writer's process
CALLS = {"memfd_create": (319, "EPERM"), "clone": (56, "EPERM"), "execve": (59, "EACCES"), "mkdirat": (258, "EROFS"), "openat": (257, "EACCES"), "pwrite64": (18, "EIO"),
         "ftruncate": (77, "EINVAL"), "fcntl": (72, "ENOLCK"), "set_robust_list": (273, "ENOSYS"), "pidfd_open": (434, "ENOSYS"), "close_range": (436, "ENOSYS"),
         "setsid": (112, "EPERM"), "madvise": (28, "ENOSYS"), "prctl": (157, "EPERM")}


def programs(folder):
    shim = build.library(os.path.join(folder, "libc10.so"), "c10.c")
    return (build.compile_(os.path.join(folder, "report"), "report.c", shim, "-Wl,-rpath," + folder, "-lpthread"),
            build.library(os.path.join(folder, "fail.so"), "fail.c", "-fvisibility=default"))


def run(folder, **settings):
    """One run: (status of the job, number of calls of the function, the observed result)."""
    program, shim = programs_of(folder)
    traces = tempfile.mkdtemp(dir=folder)
    env = {k: v for k, v in os.environ.items() if not k.startswith(("MEMTRACE_", "CUDASIM_", "FAIL", "LATE"))}
    env.update(settings, LD_PRELOAD=PRELOAD + " " + shim, MEMTRACE_DIR=os.path.join(traces, "t"), FAIL_SAY="1")
    done = subprocess.run([program, "blocks", "20000"], env=env, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
    called = re.search(r"was called (\d+) times", done.stderr)
    return done.returncode, int(called.group(1)) if called else 0, observed(traces, done.stderr)


made = {}


def programs_of(folder):
    if folder not in made:
        made[folder] = programs(folder)
    return made[folder]


def observed(traces, said):
    """The observed result, in words that do not depend on the machine's speed."""
    lines = [re.sub(r" in (/\S+)?memtrace\S*| in /\S+?(?=[ ;])", "", l)[10:] for l in said.splitlines() if l.startswith("memtrace: ") and "peak" not in l]
    paths = glob.glob(os.path.join(traces, "**", "*.mtr"), recursive=True)
    text = "; ".join('says "%s"' % l.split("; the job")[0] for l in lines)
    if not paths:
        return "no trace; " + (text or "says nothing")
    t = mtr.Trace(paths[0])
    records = sum(t.data[at + 30] in (1, 2) for offset, capacity, used, *_ in t.segments
                  for at in range(offset, min(offset + min(used, capacity) * 32, len(t.data)), 32))
    counted = t.device[0][8] + t.device[0][9]
    words = ["nothing lost" if records == EVENTS and not t.lost_events else "events lost" if records + t.lost_events >= EVENTS else
             "the file ends where it could no longer be written" if lines else "EVENTS LOST IN SILENCE"]
    words += [] if counted == EVENTS or t.state != 3 else ["COUNTERS WRONG"]
    words += [] if t.exit_status == 0 else ["exit status not known"]
    return "; ".join(words + ([text] if text else []))


def rows(folder):
    for name, error in FUNCTIONS.items():
        yield from function_rows(folder, name, error, {})
    for name, error in WRITER.items():
        yield from function_rows(folder, name, error, {"MEMTRACE_WRITER_PROCESS": "0"}, " (writing thread)")
    for name, (number, error) in CALLS.items():
        status, _, what = run(folder, FAIL_CALL="%d,%d" % (number, getattr(errno, error)))
        yield "system call `%s`: %s" % (name, error), "always", status, what


def function_rows(folder, name, error, settings, where=""):
    number = getattr(errno, error)
    _, calls, _ = run(folder, FAIL="%s,1000000,%d,once" % (name, number), **settings)
    seen = {}
    for mode in ("once", "ever"):
        for k in sorted({1, 2, 3, 4, calls // 2, calls} & set(range(1, min(calls, 40) + 1))):
            status, _, what = run(folder, FAIL="%s,%d,%d,%s" % (name, k, number, mode), **settings)
            seen.setdefault((status, what), []).append("%s%d" % ("" if mode == "once" else "from ", k))
    for (status, what), when in seen.items():
        yield "`%s`: %s%s" % (name, error, where), "call " + ", ".join(when), status, what


def table(folder):
    out = ["| fails | which call | the job | observed |", "|---|---|---|---|"]
    for fault, when, status, what in rows(folder):
        out.append("| %s | %s | %s | %s |" % (fault, when, "as without" if status == 0 else "STATUS %d" % status, what))
    return "\n".join(out) + "\n"


def main():
    with tempfile.TemporaryDirectory() as folder:
        text = table(folder)
    if "--write" not in sys.argv:
        print(text, end="")
        return
    with open(PAGE) as f:
        page = f.read()
    with open(PAGE, "w") as f:
        f.write(re.sub(r"(<!-- faults -->\n).*(<!-- end of faults -->)", lambda m: m.group(1) + text + m.group(2), page, flags=re.S))


if __name__ == "__main__":
    main()
