"""The command `memtrace`, and what it says of this process's trace."""
import json
import os
import shutil
import subprocess

import memtrace

_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "TB": 10**12, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30, "TIB": 2**40}


def size(text):
    """Bytes of "4GiB", "512 MB" or a number."""
    if isinstance(text, int) and not isinstance(text, bool) and text >= 0:
        return text
    words = str(text).strip()
    number = words.rstrip("kKmMgGtTiIbB ")
    try:
        return int(float(number) * _UNITS[words[len(number):].strip().upper()])
    except (KeyError, ValueError, OverflowError):
        raise ValueError(f"{text!r} is not a size such as 4GiB, 512MB or 65536") from None


def text(size_):
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if size_ < 1024 or unit == "GiB":
            return f"{size_} bytes" if unit == "bytes" else f"{size_:.1f} {unit}"
        size_ /= 1024


def find():
    """The path of the command, beside this package or on PATH; None if there is none."""
    here = os.path.dirname(os.path.abspath(__file__))
    for up in ("../../memtrace", "../../../../bin/memtrace"):  # build/python/memtrace; lib/memtrace/python/memtrace
        path = os.path.normpath(os.path.join(here, up))
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return shutil.which("memtrace")


def environment():
    """This process's, without what is preloaded: the command is not to be recorded."""
    mine = dict(os.environ)
    mine.pop("LD_PRELOAD", None)
    return mine


def report(phase):
    """What `memtrace report --json --phase` says of this process. Raises RuntimeError with the reason if it says nothing."""
    command = find()
    path = memtrace.trace()
    if not command:
        raise RuntimeError("the command memtrace is neither beside the module nor on PATH")
    if not path:
        raise RuntimeError("this process is not recorded")
    if not memtrace.flush():
        raise RuntimeError("the trace was not written in time")
    done = subprocess.run([command, "report", "--json", "--phase", phase, path], capture_output=True, text=True, env=environment(), check=False)
    if done.returncode != 0:
        raise RuntimeError(done.stderr.strip() or f"memtrace report ended with status {done.returncode}")
    return json.loads(done.stdout)
