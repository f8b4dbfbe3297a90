"""A plugin of pytest: one JSON line a test into the file of CONFORMANCE_OUT, with what a failing statement speaks about.

pytest -p conformance_plugin. A failed test keeps its frames, and with them its tensors, in sys.last_traceback and in cycles: the
plugin drops them, so that a failure does not change what the tests after it measure. CONFORMANCE_LEAVE_OUT="FILE:LINE,LINE" leaves these
statements of a file out.
"""
import ast
import gc
import json
import os
import re
import sys
import traceback
from importlib.machinery import SourceFileLoader

import pytest

from conformance_statement import comparisons_around, leave_out, speaks_about
from conformance_table import MEMORY

FAILED = pytest.StashKey()


def holds_gpu_tensor(value, depth=2):
    import torch
    if isinstance(value, torch.Tensor):
        return value.is_cuda
    if depth == 0:
        return False
    if isinstance(value, torch.nn.Module):
        return any(p.is_cuda for p in value.parameters())
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, (list, tuple)) else getattr(value, "__dict__", {}).values()
    return any(holds_gpu_tensor(v, depth - 1) for v in list(inside)[:64])


def chain(error):
    """The error and what caused it, innermost last."""
    while error is not None:
        yield error
        error = error.__cause__ or error.__context__


def of_failure(error, path):
    """What the last failing statement of the test's own file says, and whether it reads a tensor of the device."""
    text = "".join(traceback.format_exception(error))
    errors = list(chain(error))
    frames = [(f, line) for e in errors for f, line in traceback.walk_tb(e.__traceback__) if f.f_code.co_filename == path]
    wanted = re.findall(r'File "([^"\n]*%s)", line (\d+)' % re.escape(os.path.basename(path)), text)
    line = frames[-1][1] if frames else int(wanted[-1][1]) if wanted else 0
    if wanted and "Process " in str(error)[:200]:  # the error of a rank, as text
        frames, line = [], int(wanted[-1][1])
    statement, origin, names = speaks_about(path, line)
    before, behind = comparisons_around(path, line, MEMORY)
    local = dict(frames[-1][0].f_locals) if frames else {}
    return {"error": type(errors[-1]).__name__, "message": "\n".join(str(e) for e in errors)[-6000:], "line": line, "statement": statement,
            "origin": origin, "file": path, "memory_before": before, "memory_behind": behind,
            "reads_gpu": any(holds_gpu_tensor(local[n]) for n in names if n in local)}


def import_with_less(path, lines):
    """The file at PATH is compiled without the statements at LINES, whatever was kept of it compiled. pytest must not import it: --assert=plain."""
    get_code = SourceFileLoader.get_code

    def compiled(loader, name):
        if loader.get_filename(name) != path:
            return get_code(loader, name)
        tree = ast.parse(loader.get_data(path))
        leave_out(tree, lines)
        return compile(tree, path, "exec")
    SourceFileLoader.get_code = compiled


if os.environ.get("CONFORMANCE_LEAVE_OUT"):
    _file, _, _lines = os.environ["CONFORMANCE_LEAVE_OUT"].rpartition(":")
    import_with_less(_file, [int(n) for n in _lines.split(",")])


def drop_frames(error=None):
    for e in chain(error):
        traceback.clear_frames(e.__traceback__)
    for name in ("last_type", "last_value", "last_traceback", "last_exc"):
        if hasattr(sys, name):
            delattr(sys, name)
    gc.collect()


def source_of(item):
    """The file that has the test's class, which the test's own file may import."""
    module = sys.modules.get(getattr(item.cls, "__module__", None))
    return getattr(module, "__file__", None) or str(item.path)


def write(row):
    with open(os.environ["CONFORMANCE_OUT"], "a") as f:
        f.write(json.dumps(row) + "\n")


def pytest_collectreport(report):
    """A file that cannot be imported counts as one failed test."""
    if report.failed:
        write({"test": report.nodeid, "when": "collect", "outcome": "failed", "seconds": 0, "error": "import", "message": str(report.longrepr)[-6000:],
               "line": 0, "statement": "", "origin": "", "file": "", "memory_before": False, "memory_behind": False,
               "reads_gpu": False})


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item, call):
    outcome = yield
    report = outcome.get_result()
    if report.when != "call" and report.outcome == "passed":
        return
    row = {"test": item.nodeid, "when": report.when, "outcome": report.outcome, "seconds": round(call.duration, 2)}
    if hasattr(report, "wasxfail"):
        row["outcome"] = "xfailed"
    elif report.outcome == "skipped":
        row["message"] = str(report.longrepr[-1] if isinstance(report.longrepr, tuple) else report.longrepr)
    elif call.excinfo is not None:
        row.update(of_failure(call.excinfo.value, source_of(item)))
        item.config.stash[FAILED] = call.excinfo.value
    write(row)


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item):
    if FAILED in item.config.stash:
        error = item.config.stash[FAILED]
        del item.config.stash[FAILED]
        drop_frames(error)
