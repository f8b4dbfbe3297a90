"""preload/pylayout.def against the headers of every Python that is installed; and stacks under each of them without PyTorch."""
import glob
import os
import re
import subprocess
import unittest

from harness import PRELOAD, ROOT, Case, mtr

PROGRAM = """
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_frame.h>
#else
#include <frameobject.h>
#endif
#define O(type, field) (int)offsetof(type, field)
int main(void) {
	int row[] = {
#if PY_VERSION_HEX >= 0x030D0000
	O(PyThreadState, current_frame), -1, O(_PyInterpreterFrame, f_executable), O(_PyInterpreterFrame, instr_ptr),
#elif PY_VERSION_HEX >= 0x030B0000
	O(PyThreadState, cframe), O(_PyCFrame, current_frame), O(_PyInterpreterFrame, f_code), O(_PyInterpreterFrame, prev_instr),
#else
	O(PyThreadState, frame), -1, O(struct _frame, f_code), O(struct _frame, f_lasti),
#endif
#if PY_VERSION_HEX >= 0x030B0000
	O(_PyInterpreterFrame, previous), O(_PyInterpreterFrame, owner),
#else
	O(struct _frame, f_back), -1,
#endif
	O(PyCodeObject, co_firstlineno), O(PyCodeObject, co_filename), O(PyCodeObject, co_name),
#if PY_VERSION_HEX >= 0x030B0000
	O(PyCodeObject, co_qualname), O(PyCodeObject, co_code_adaptive),
#else
	-1, -1,
#endif
	(int)sizeof(PyASCIIObject), (int)sizeof(PyCompactUnicodeObject), O(PyCompactUnicodeObject, utf8), O(PyCompactUnicodeObject, utf8_length) };
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) printf("%d ", row[i]);
}
"""


def table():
    with open(os.path.join(ROOT, "preload", "pylayout.def")) as f:
        rows = re.findall(r"^PYTHON\((.*)\)", f.read(), re.M)
    return {int(r.split(",")[0]): [int(x) for x in r.split(",")[1:]] for r in rows}


# The allocator's report, called as PyTorch would call it but from ctypes: 1 MiB on device 0, under a Python stack.
REPORT = """
import ctypes
report = ctypes.CDLL(None)._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint16]
class Model:
    def forward(self):
        report(0x7f0000000000, 1 << 20, 1 << 20, 2 << 20, 1)
def train(model):
    for _ in range(2):
        (lambda:
            model.forward())()
def steps():
    train(Model())
    yield
list(steps())
"""


def pythons():
    found = {}
    for path in ["/usr/bin/python3", *glob.glob("/usr/bin/python3.*"), *glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3"))]:
        if path.endswith("-config"):
            continue
        version = subprocess.run([path, "-c", "import sys; print(sys.version_info[1])"], stdout=subprocess.PIPE, text=True).stdout
        if version.strip().isdigit():
            found.setdefault(int(version), path)
    return found


class Layout(Case):
    def test_table_matches_headers(self):
        found = {}
        for header in glob.glob("/usr/include/python3.*/Python.h") + glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/include/python3.*/Python.h")):
            include = os.path.dirname(header)
            minor = int(re.search(r"python3\.(\d+)", include).group(1))
            if minor in table():
                found.setdefault(minor, include)
        if not found:
            raise unittest.SkipTest("no Python headers are installed")
        for minor, include in sorted(found.items()):
            with self.subTest(python="3.%d" % minor):
                source = os.path.join(self.dir, "layout.c")
                with open(source, "w") as f:
                    f.write(PROGRAM)
                subprocess.run(["gcc", "-w", "-I" + include, "-I" + include + "/internal", source, "-o", source[:-2]], check=True)
                row = [int(x) for x in subprocess.run([source[:-2]], check=True, stdout=subprocess.PIPE, text=True).stdout.split()]
                self.assertEqual(table()[minor], row)

    def test_stacks_under_each_python(self):
        seen = 0
        for minor, path in sorted(pythons().items()):
            with self.subTest(python="3.%d" % minor):
                self.traces = os.path.join(self.dir, str(minor))
                self.run_([path, "-c", REPORT], LD_PRELOAD=PRELOAD, MEMTRACE_DIR=self.traces)
                trace = self.trace()
                record = next(r for r in trace.records() if r[5] == 1)
                stack = trace.stack(record[3])
                if minor not in table():
                    self.assertEqual(stack, [])
                    self.assertIn(b"not known", trace.meta["note:python stacks"])
                    continue
                # qualified names exist since 3.11
                names = ["Model.forward", "train.<locals>.<lambda>", "train", "steps", "<module>"]
                if minor < 11:
                    names = [n.split(".")[-1] for n in names]
                self.assertEqual(stack, [(n, "<string>", l) for n, l in zip(names, (7, 11, 10, 13, 15))])
                seen += 1
        self.assertGreater(seen, 0)

    def test_as_many_stacks_as_paths(self):
        """1,024 ways through the same two call sites are 1,024 stacks: only their order tells them apart."""
        self.run_(["python3", "-c", """
import ctypes, itertools
report = ctypes.CDLL(None)._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint16]
n = 0
def walk(path):
    global n
    if not path:
        n += 1
        return report(0x7f0000000000 + (n << 20), 1 << 20, n << 20, 2 << 40, 1)
    if path[0] == "L":
        return walk(path[1:])
    return walk(path[1:])
for path in itertools.product("LR", repeat=10):
    walk(path)
"""], LD_PRELOAD=PRELOAD, MEMTRACE_DIR=self.traces, MEMTRACE_QUIET=1)
        trace = self.trace()
        self.assertEqual(len({r[3] for r in trace.records() if r[5] == 1}), 1024)
