"""preload/python/pylayout.def against the headers of every installed Python; and stacks under each of them without PyTorch."""
import glob
import os
import re
import subprocess
import unittest

from harness import BUILD, MEMTRACE, PRELOAD, ROOT, Case

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
#if PY_VERSION_HEX >= 0x030D0000
#include <internal/pycore_runtime.h>
#define W(field) (int)(offsetof(_Py_DebugOffsets, field) / 8)
#if PY_VERSION_HEX >= 0x030E0000
#define LATER(field) W(field)
#else
#define LATER(field) -1
#endif
_Static_assert(offsetof(PyCodeObject, co_version) - offsetof(PyCodeObject, co_firstlineno) == 24, "co_version");
_Static_assert(sizeof(PyCompactUnicodeObject) - sizeof(PyASCIIObject) == 16, "characters");
_Static_assert(offsetof(_Py_DebugOffsets, free_threaded) == 16, "free_threaded");
int main(void) {
	int row[] = { W(thread_state.interp), W(thread_state.current_frame), W(interpreter_frame.executable), W(interpreter_frame.instr_ptr), W(interpreter_frame.previous),
	W(interpreter_frame.owner), LATER(interpreter_frame.tlbc_index), W(code_object.firstlineno), W(code_object.filename),
	W(code_object.qualname), W(code_object.co_code_adaptive), LATER(code_object.co_tlbc), W(pyobject.ob_type), W(unicode_object.state),
	W(unicode_object.length), W(unicode_object.asciiobject_size) };
#else
int main(void) {
	int row[] = {
#if PY_VERSION_HEX >= 0x030B0000
	O(PyThreadState, interp), O(PyThreadState, cframe), O(_PyCFrame, current_frame), O(_PyInterpreterFrame, f_code), O(_PyInterpreterFrame, prev_instr), 0,
	O(_PyInterpreterFrame, previous), O(_PyInterpreterFrame, owner),
#else
	O(PyThreadState, interp), O(PyThreadState, frame), -1, O(struct _frame, f_code), O(struct _frame, f_lasti), PY_VERSION_HEX >= 0x030A0000 ? 2 : 1,
	O(struct _frame, f_back), -1,
#endif
	O(PyCodeObject, co_firstlineno), O(PyCodeObject, co_filename),
#if PY_VERSION_HEX >= 0x030B0000
	O(PyCodeObject, co_qualname), O(PyCodeObject, co_linetable),
#elif PY_VERSION_HEX >= 0x030A0000
	O(PyCodeObject, co_name), O(PyCodeObject, co_linetable),
#else
	O(PyCodeObject, co_name), O(PyCodeObject, co_lnotab),
#endif
#if PY_VERSION_HEX >= 0x030C0000
	O(PyCodeObject, co_version),
#else
	-1,
#endif
#if PY_VERSION_HEX >= 0x030B0000
	O(PyCodeObject, co_code_adaptive),
#else
	-1,
#endif
	(int)sizeof(PyASCIIObject), (int)sizeof(PyCompactUnicodeObject) };
#endif
	for (unsigned i = 0; i < sizeof(row) / sizeof(row[0]); i++) printf("%d ", row[i]);
}
"""
NEWER = os.path.expanduser("~/.cache/memtrace/pythons")     # tests/long/newer-pythons.sh
DEEPER = ("... deeper frames are not kept", "", 0)


def table():
    with open(os.path.join(ROOT, "preload", "python", "pylayout.def")) as f:
        rows = re.findall(r"^(?:PYTHON|OFFSETS)\((.*)\)", f.read(), re.M)
    return {int(r.split(",")[0]): [int(x) for x in r.split(",")[1:]] for r in rows}


def headers():
    """{version: include folder}; a "t" means a free-threaded build; the headers of a Debian version serve it too"""
    found = {}
    for pattern in "/usr/include/python3.*", "~/.pyenv/versions/3.*/include/python3.*", NEWER + "/*/include/python3.*", NEWER + "/*/usr/include/python3.*":
        for header in sorted(glob.glob(os.path.expanduser(pattern) + "/Python.h")):
            include = os.path.dirname(header)
            version = re.search(r"/python3\.(\w+)$", include).group(1)
            if version.rstrip("t").isdigit() and int(version.rstrip("t")) in table():
                found.setdefault(version, include)
                if int(version.rstrip("t")) >= 14:
                    found.setdefault(version + "t", include)
    return found


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


BLOCK = """
import ctypes
report = ctypes.CDLL(None)._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint16]
n = 0
def block():
    global n
    n += 1
    report(0x7f0000000000 + (n << 20), 1 << 20, n << 20, 2 << 40, 1)
def run(source, file, name=None):
    names = {"block": block}
    exec(compile(source, file, "exec"), names)
    if name:
        names[name]()
"""
SHORT_LIVED = BLOCK + """
block()
for i in range(30): run("def fn%02d():\\n    block()\\n" % i, "names.py", "fn%02d" % i)
for i in range(30): run("\\n" * i + "def line():\\n    block()\\n", "lines.py", "line")
for i in range(30): run("def file():\\n    block()\\n", "file%02d.py" % i, "file")
for i in range(30): run("x = 1; block()", "<cell %02d>" % i)
for i in range(30): run("def body():\\n" + "    x = 1\\n" * i + "    block()\\n" + "    x = 1\\n" * (30 - i), "bodies.py", "body")
"""
WALK = """
import itertools
def walk(path):
    if not path:
        return block()
    if path[0] == "L":
        return walk(path[1:])
    return walk(path[1:])
for again in range(2):
    for path in itertools.product("LR", repeat=%d): walk(path)
"""
# process_vm_readv is system call 310 of x86-64, 270 elsewhere.
# Each sub-interpreter numbers its code objects from the same number on, and is gone before the next one begins.
SUB_INTERPRETERS = """
try:
    import _interpreters
    make = lambda: _interpreters.create("legacy")
except ImportError:
    import _xxsubinterpreters as _interpreters
    make = lambda: _interpreters.create(isolated=False)
source = '''import ctypes
report = ctypes.CDLL(None)._ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE
report.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_size_t, ctypes.c_size_t, ctypes.c_uint16]
names = {"report": report}
exec(compile("def fn%02d():\\\\n    report(0x7f0000000000 + (%d << 20), 1 << 20, 1 << 20, 2 << 40, 1)\\\\n", "sub%02d.py", "exec"), names)
names["fn%02d"]()'''
for i in range(60):
    sub = make()
    _interpreters.run_string(sub, source % (i, i, i, i))
    _interpreters.destroy(sub)
"""
FILTER = """
import ctypes, os, struct
number = 310 if os.uname().machine == "x86_64" else 270
rows = (0x20, 0, 0, 0), (0x15, 0, 1, number), (6, 0, 0, %d), (6, 0, 0, 0x7fff0000)
code = b"".join(struct.pack("<HBBI", *row) for row in rows)
data = ctypes.create_string_buffer(code)
program = ctypes.create_string_buffer(struct.pack("<HxxxxxxQ", 4, ctypes.addressof(data)))
prctl = ctypes.CDLL(None).prctl
prctl.argtypes = [ctypes.c_int, ctypes.c_ulong, ctypes.c_void_p, ctypes.c_ulong, ctypes.c_ulong]
assert prctl(38, 1, None, 0, 0) == 0 and prctl(22, 2, program, 0, 0) == 0
"""
EMBED = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
struct device { int8_t type, index; };
int main(int argc, char **argv)
{
	void (*report)(void *, int64_t, size_t, size_t, struct device) = dlsym(RTLD_DEFAULT, "_ZN3c1027reportMemoryUsageToProfilerEPvlmmNS_6DeviceE");
	for (long i = 1; i <= 5; i++)
		report((void *)(0x7e0000000000 + (i << 20)), 1 << 20, i << 20, 2l << 40, (struct device){ 1, 0 });
	void *python = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
	if (!python)
		return fprintf(stderr, "%s\\n", dlerror()), 1;
	((void (*)(int))dlsym(python, "Py_InitializeEx"))(0);
	return ((int (*)(const char *))dlsym(python, "PyRun_SimpleString"))(argv[2]);
}
"""
FREES = """
import ctypes
driver, context, pointer = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
def release():
    assert driver.cuMemFree_v2(pointer) == 0
assert driver.cuInit(0) == 0 and driver.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and driver.cuCtxSetCurrent(context) == 0
assert driver.cuMemAlloc_v2(ctypes.byref(pointer), ctypes.c_size_t(1 << 20)) == 0
release()
"""


def pythons():
    found = {}
    for path in ["/usr/bin/python3", *glob.glob("/usr/bin/python3.*"), *glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/bin/python3")),
                 *glob.glob(NEWER + "/*/bin/python3")]:
        if path.endswith("-config"):
            continue
        version = subprocess.run([path, "-c", "import sys; print('%d%s' % (sys.version_info[1], getattr(sys, 'abiflags', '')))"],
                                 stdout=subprocess.PIPE, text=True).stdout.strip()
        if version.rstrip("t").isdigit():
            found.setdefault(version, path)
    return found


class Layout(Case):
    def under(self, path, source, name="", **settings):
        """The trace of SOURCE under the Python at PATH."""
        self.traces = os.path.join(self.dir, "traces", name)
        self.run_([path, "-c", source], LD_PRELOAD=PRELOAD, MEMTRACE_DIR=self.traces, MEMTRACE_QUIET=1, **settings)
        return self.trace()

    def stacks(self, trace):
        return [trace.stack(r[3]) for r in trace.records() if r[5] == 1]

    def test_table_matches_headers(self):
        if not headers():
            raise unittest.SkipTest("no Python headers are installed")
        for version, include in sorted(headers().items()):
            with self.subTest(python="3." + version):
                source = os.path.join(self.dir, "layout.c")
                with open(source, "w") as f:
                    f.write(PROGRAM)
                subprocess.run(["gcc", "-w", *(["-DPy_GIL_DISABLED=1"] if version.endswith("t") else []), "-I" + include,
                                "-I" + os.path.dirname(include), "-I" + include + "/internal", "-I" + include + "/internal/mimalloc", source, "-o", source[:-2]], check=True)
                row = [int(x) for x in subprocess.run([source[:-2]], check=True, stdout=subprocess.PIPE, text=True).stdout.split()]
                self.assertEqual(table()[int(version.rstrip("t"))], row)

    def test_stacks_under_each_python(self):
        seen = 0
        for version, path in sorted(pythons().items()):
            minor = int(version.rstrip("t"))
            with self.subTest(python="3." + version):
                trace = self.under(path, REPORT, version)
                stack = self.stacks(trace)[0]
                if minor < min(table()):
                    self.assertEqual(stack, [])
                    self.assertIn(b"not known", trace.meta["note:python stacks"])
                    self.assertEqual(trace.flags & 2, 0)
                    continue
                # qualified names exist since 3.11
                names = ["Model.forward", "train.<locals>.<lambda>", "train", "steps", "<module>"]
                if minor < 11:
                    names = [n.split(".")[-1] for n in names]
                self.assertEqual(stack, [(n, "<string>", l) for n, l in zip(names, (7, 11, 10, 13, 15))])
                self.assertEqual(trace.flags & 2, 2)
                seen += 1
        self.assertGreater(seen, 0)

    def test_a_code_object_at_anothers_address(self):
        """30 functions of each kind; each is freed before the next is created, at the same address: 30 stacks of each kind."""
        for version, path in sorted(pythons().items()):
            if int(version.rstrip("t")) < min(table()):
                continue
            with self.subTest(python="3." + version):
                stacks = [s[1] for s in self.stacks(self.under(path, SHORT_LIVED, version))[1:]]
                kinds = [("fn%02d", "names.py", 2), ("line", "lines.py", "i"), ("file", "file%02d.py", 2), ("<module>", "<cell %02d>", 1),
                         ("body", "bodies.py", "i")]
                expected = [(n % i if "%" in n else n, f % i if "%" in f else f, i + 2 if l == "i" else l) for n, f, l in kinds for i in range(30)]
                self.assertEqual(stacks, expected)

    def test_sub_interpreters(self):
        """60 interpreters, one after the other, with a function each, of which many have the same number and address: 60 stacks. (3.12 has the
        call as a private module, versions before it other identities of code.)"""
        for version, path in sorted(pythons().items()):
            if version not in ("12", "13", "14"):
                continue
            with self.subTest(python="3." + version):
                stacks = self.stacks(self.under(path, SUB_INTERPRETERS, version))
                self.assertEqual([s[0] for s in stacks], [("fn%02d" % i, "sub%02d.py" % i, 2) for i in range(60)])

    def test_the_same_code_made_again(self):
        """A cell that runs 300 times is compiled 300 times, and is one stack."""
        trace = self.under("python3", "%s\nfor i in range(300): run('block()', '<cell>')\n" % BLOCK)
        self.assertEqual(len({r[3] for r in trace.records() if r[5] == 1}), 1)

    def test_names_of_every_width(self):
        """CPython stores the characters of a str in 1, 2 or 4 bytes each: names and files come as UTF-8, and a long one is cut between two characters."""
        names = ["\u00f6ffnen", "\u6a21\u578b", "\U00020000\u578bx", "\u6a21" * 400, "\U00020000" * 300]
        for version, path in sorted(pythons().items()):
            if int(version.rstrip("t")) < min(table()):
                continue
            with self.subTest(python="3." + version):
                source = BLOCK + "".join("run(%r, %r, %r)\n" % ("def %s():\n    block()\n" % n, n[:9] + ".py", n) for n in names)
                stacks = self.stacks(self.under(path, source, version))
                self.assertEqual([s[1] for s in stacks[:3]], [(n, n[:9] + ".py", 2) for n in names[:3]])
                for stack, name in zip(stacks[3:], names[3:]):
                    kept = stack[1][0]
                    self.assertTrue(name.startswith(kept), kept)
                    self.assertGreater(len(kept.encode()), 790)
                    self.assertLessEqual(len(kept.encode()), 800)

    def test_a_path_that_is_not_utf8(self):
        """Python gives such bytes as surrogates: they are stored as Python's own tracebacks print them, two files with other bytes stay two, and
        the report is UTF-8."""
        files = "\udcff\udcfe.py", "\udcff\udcfd.py", "\u6a21\ud800.py"
        shown = "\\udcff\\udcfe.py", "\\udcff\\udcfd.py", "\u6a21\\ud800.py"
        for version, path in sorted(pythons().items()):
            if int(version.rstrip("t")) < min(table()):
                continue
            with self.subTest(python="3." + version):
                source = BLOCK + "\n".join("exec(compile('block()', 'x', 'exec').replace(co_filename=%a), {'block': block})" % f for f in files)
                stacks = self.stacks(self.under(path, source, version))
                self.assertEqual([s[1][1] for s in stacks], list(shown))
                self.assertIn(shown[0].replace("\\", "\\\\"), self.run_([MEMTRACE, "report", "--json", self.traces]).stdout)

    def test_a_stack_that_is_cut(self):
        """The innermost 128 frames are kept; with one more, the outermost kept frame says that there were more."""
        for depth, cut in (127, False), (128, True), (300, True):
            with self.subTest(depth=depth):
                source = BLOCK + "def deep(n):\n    deep(n - 1) if n > 1 else block()\ndeep(%d)\n" % (depth - 1)
                stack, = self.stacks(self.under("python3", source, str(depth)))
                self.assertEqual([f[0] for f in stack[:127]], ["block"] + ["deep"] * 126)
                self.assertEqual(stack[127][0], "<module>" if depth == 127 else "deep")
                self.assertEqual(stack[128:], [DEEPER] if cut else [])
                self.assertEqual("... deeper frames are not kept;deep <string>:" in self.run_([MEMTRACE, "report", "--json", self.traces]).stdout, cut)

    def test_where_reading_memory_is_forbidden(self):
        """A filter of system calls that refuses process_vm_readv, as in containers, and one that kills for it."""
        for name, action in ("refused", 0x00050001), ("killed", 0x80000000):
            with self.subTest(name):
                trace = self.under("python3", FILTER % action + REPORT, name)
                self.assertNotIn("note:python stacks", trace.meta)
                self.assertEqual(self.stacks(trace)[0][0], ("Model.forward", "<string>", 7 + FILTER.count("\n")))

    def test_a_python_that_is_loaded_later(self):
        """A program that records before it loads Python: its stacks are found some 1,000 events later."""
        library = sorted(glob.glob(os.path.expanduser("~/.pyenv/versions/3.*/lib/libpython3.1*.so.1.0")))
        if not library:
            raise unittest.SkipTest("no Python is installed as a library")
        with open(os.path.join(self.dir, "embed.c"), "w") as f:
            f.write(EMBED)
        program = os.path.join(self.dir, "embed")
        subprocess.run(["gcc", "-w", program + ".c", "-o", program, "-ldl"], check=True)
        self.run_([program, library[-1], BLOCK + "for i in range(1100): block()\n"], LD_PRELOAD=PRELOAD, MEMTRACE_DIR=self.traces,
                  MEMTRACE_QUIET=1, PYTHONHOME=os.path.dirname(os.path.dirname(library[-1])))
        stacks = self.stacks(self.trace())
        self.assertEqual(len(stacks), 5 + 1100)
        self.assertEqual(stacks[4], [])
        self.assertEqual([f[0] for f in stacks[-1]], ["block", "<module>"])

    def test_full_tables(self):
        """The smallest budget has room for some hundred stacks: these stay correct, the others are unknown, and the report gives the reason."""
        trace = self.under("python3", BLOCK + WALK % 10, MEMTRACE_BUDGET="512KiB", MEMTRACE_STACK_MIN=0)
        stacks = self.stacks(trace)
        known = [bool(s) for s in stacks[:1024]]
        self.assertGreater(known.count(True), 200)
        self.assertEqual(known, [True] * known.count(True) + [False] * known.count(False))
        self.assertEqual([bool(s) for s in stacks[1024:]], known)
        self.assertEqual(stacks[1024:], stacks[:1024])
        self.assertEqual((trace.lost_reason, trace.lost_stacks, trace.busy_stacks), (4, known.count(False), 0))
        self.assertIn("%d stacks were not kept: the tables are full" % known.count(False), " ".join(self.text().split()))

    def test_frees_without_stacks(self):
        for setting, names in ("1", ["release", "<module>"]), ("0", []):
            trace = self.under("python3", FREES, setting, MEMTRACE_FREE_STACKS=setting, LD_LIBRARY_PATH=os.path.join(BUILD, "cudasim"))
            alloc, = [r for r in trace.records() if r[5] == 5]
            free, = [r for r in trace.records() if r[5] == 6]
            self.assertEqual([f[0] for f in trace.stack(alloc[3])], ["<module>"])
            self.assertEqual([f[0] for f in trace.stack(free[3])], names)

    def test_as_many_stacks_as_paths(self):
        """1,024 paths through the same two call sites are 1,024 stacks: only the order of frames differs."""
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
