"""preload/pylayout.def against the headers of every Python that is installed; and stacks under each of them without PyTorch."""
import glob
import os
import re
import subprocess
import unittest

from harness import ROOT, Case

PROGRAM = """
#define Py_BUILD_CORE 1
#include <Python.h>
#include <stddef.h>
#include <stdio.h>
#if PY_VERSION_HEX >= 0x030B0000
#include <internal/pycore_frame.h>
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
