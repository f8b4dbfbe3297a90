"""The house rules that `make lint` holds can fail."""
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest

from harness import BUILD, ROOT

YOUNG = """
	.text
	.globl	stub
	.type	stub, %function
stub:	.symver	stub, young@@GLIBC_2.99, remove
"""


class Floor(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = folder.name

    def compile(self, name, source, *options):
        path, text = os.path.join(self.folder, name), os.path.join(self.folder, name + (".S" if "symver" in source else ".c"))
        with open(text, "w") as f:
            f.write(source)
        subprocess.run(["cc", "-shared", "-fPIC", "-nostdlib", text, "-o", path, *options], check=True)
        return path

    def check(self, floor, path):
        done = subprocess.run([os.path.join(ROOT, "tests", "lint", "glibc_floor.sh"), floor, path], stdout=subprocess.PIPE, text=True)
        return done.returncode, done.stdout

    def test_younger_symbol(self):
        """A library that calls a function of glibc 2.99 needs 2.99: not 2.28, and not 2.9, which is older though its digits compare higher."""
        versions = os.path.join(self.folder, "map")
        with open(versions, "w") as f:
            f.write("GLIBC_2.99 { };\n")
        libc = self.compile("libc.so.6", YOUNG, "-Wl,-soname,libc.so.6", "-Wl,--version-script=" + versions)
        caller = self.compile("caller.so", "void young(void); void call(void) { young(); }", libc)
        for floor in ("2.28", "2.9"):
            status, said = self.check(floor, caller)
            self.assertEqual(status, 1)
            self.assertIn("needs GLIBC_2.99, not %s: young" % floor, said)
        self.assertEqual(self.check("2.99", caller), (0, ""))
        self.assertEqual(self.check("2.100", caller), (0, ""))

    def test_of_the_build(self):
        """What was built holds the floors of the Makefile; an older one is said to be broken by it."""
        with open(os.path.join(ROOT, "Makefile")) as f:
            floors = dict(re.findall(r"^(FLOOR\w*) *:= (\S+)$", f.read(), re.M))
        for name, floor in (("libmemtrace.so", "FLOOR_PRELOAD"), ("libcudasim.so", "FLOOR"), ("libcudasim-nvml.so", "FLOOR"), ("memtrace", "FLOOR")):
            with self.subTest(name):
                self.assertEqual(self.check(floors[floor], os.path.join(BUILD, name)), (0, ""))
        status, said = self.check("2.26", os.path.join(BUILD, "libcudasim.so"))
        self.assertEqual((status, "memfd_create" in said), (1, True), said)

    def test_documented(self):
        """The README names the floors of the Makefile."""
        with open(os.path.join(ROOT, "Makefile")) as f:
            floors = dict(re.findall(r"^(FLOOR\w*) *:= (\S+)$", f.read(), re.M))
        with open(os.path.join(ROOT, "README.md")) as f:
            readme = f.read()
        self.assertIn("glibc %s or later" % floors["FLOOR"], readme)
        self.assertIn("libmemtrace.so %s" % floors["FLOOR_PRELOAD"], readme)


class Layers(unittest.TestCase):
    """tests/lint/layers.py in a copy of the tree: what is moved, misnamed or written against the rules is named."""

    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.addClassCleanup(cls.temporary.cleanup)
        cls.copy = os.path.join(cls.temporary.name, "tree")
        for name in ("analyzer", "preload", "include", "CONTRIBUTING.md"):
            (shutil.copytree if os.path.isdir(os.path.join(ROOT, name)) else shutil.copy)(os.path.join(ROOT, name), os.path.join(cls.copy, name))

    def write(self, name, text, old=None):
        """Writes a file of the copy, or puts `text` in the place of `old` there; undone after the test."""
        path = os.path.join(self.copy, name)
        before = None
        if os.path.exists(path):
            with open(path) as f:
                before = f.read()
        if old is not None:
            self.assertIn(old, before)
            text = before.replace(old, text, 1)

        def undo():
            if before is None:
                os.unlink(path)
            else:
                with open(path, "w") as f:
                    f.write(before)
        self.addCleanup(undo)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)

    def move(self, old, new):
        old, new = os.path.join(self.copy, old), os.path.join(self.copy, new)
        os.rename(old, new)
        self.addCleanup(os.rename, new, old)

    def check(self, rule, *named):
        """The rule is broken in each of the ways of `named`; before that the copy keeps it."""
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "lint", "layers.py"), "--repo", self.copy, "--rule", rule],
                              stdout=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 1 if named else 0, done.stdout)
        for words in named:
            self.assertRegex(done.stdout, r"(?m)^lint: \[%s\] .*%s" % (rule, words))

    def test_include(self):
        """A file that includes and calls what is above it; a part that includes another part."""
        self.check("include")
        self.write("analyzer/trace/stray.c", '#include "report/report.h"\nvoid stray(struct report *r)\n{\n\treport_release(r);\n}\n')
        self.write("preload/record/stray.c", '#include "../../analyzer/util/buf.h"\n')
        self.check("include", "analyzer/trace/stray.c:1: includes report.h of analyzer/report", "analyzer/trace/stray.c:4: uses report_release of analyzer/report",
                   "preload/record/stray.c:1: includes buf.h of analyzer/util")

    def test_moved(self):
        """A file that is moved to another folder takes its edges along."""
        self.move("analyzer/report/report.c", "analyzer/util/report.c")
        self.check("include", "analyzer/util/report.c:[0-9]+: includes report.h of analyzer/report, which the table does not let analyzer/util do")
        self.check("prototype", r"analyzer/report/report.h:[0-9]+: declares report_release\(\), which analyzer/util/report.c defines")

    def test_table(self):
        """A circle in the table, a row without a folder, a folder without a row."""
        self.check("table")
        with open(os.path.join(self.copy, "CONTRIBUTING.md")) as f:
            row = re.search(r"(?m)^\| `analyzer/util/` .*\|$", f.read()).group(0)
        self.write("CONTRIBUTING.md", row[:-1] + "`trace` |\n| `analyzer/nowhere/` | nothing is there | `util` |", row)
        self.check("table", "circle: .*analyzer/trace analyzer/util", "the row of analyzer/nowhere names analyzer/nowhere")
        os.mkdir(os.path.join(self.copy, "analyzer/attic"))
        self.addCleanup(os.rmdir, os.path.join(self.copy, "analyzer/attic"))
        self.write("analyzer/attic/old.c", "")
        self.check("room", "analyzer/attic/old.c: in no row")

    def test_prototype(self):
        """A header that declares what the .c file of another one defines."""
        self.check("prototype")
        self.write("analyzer/trace/stray.h", "struct buf;\nvoid buf_release(struct buf *b);\n")
        self.write("analyzer/util/stray.h", "struct buf;\nvoid buf_release(struct buf *b);\nextern int elsewhere, own;\n")
        self.write("analyzer/util/stray.c", "int own;\n")
        self.write("analyzer/util/buf_limb.c", "int elsewhere;\n")
        self.check("prototype", r"analyzer/trace/stray.h:2: declares buf_release\(\)", r"analyzer/util/stray.h:2: declares buf_release\(\), which analyzer/util/buf.c",
                   r"analyzer/util/stray.h:3: declares elsewhere")

    def test_tag(self):
        """A tag that another file of the part defines too; one of another part does not count."""
        self.check("tag")
        self.write("preload/record/stray.h", "struct session {\n\tint x;\n};\n")
        self.check("tag")
        self.write("analyzer/trace/stray.h", "struct session {\n\tint x;\n};\n")
        self.check("tag", "struct session is also defined at analyzer/")

    def test_output(self):
        self.check("output")
        self.write("analyzer/replay/stray.c", "void stray(void)\n{\n\tprintf(x);\n\tfputs(x, stderr);\n\tdprintf(1, x);\n\twrite(2, x, 1);\n"
                   "\twrite(STDOUT_FILENO, x, 1);\n\twrite(12, x, 1);\n}\n/* stdout */\n")
        self.check("output", "analyzer/replay/stray.c:3: printf", "analyzer/replay/stray.c:4: stderr", "analyzer/replay/stray.c:5: dprintf",
                   "analyzer/replay/stray.c:6: write", "analyzer/replay/stray.c:7: write")

    def test_json(self):
        self.check("json")
        self.write("analyzer/plan/stray.c", 'const char *stray = "{\\"key\\": %d}";\n')
        self.write("analyzer/json/stray.c", 'const char *stray = "{\\"key\\": %d}";\n')
        self.write("analyzer/export/stray.c", 'const char *stray = "%c\\"key\\":";\n')
        self.check("json", "analyzer/plan/stray.c:1: JSON by hand", "analyzer/export/stray.c:1: JSON by hand")

    def test_division(self):
        self.check("division")
        self.write("analyzer/diagnose/conditions.def", "(m->step / m->steps)", old="(m->steps || m->run_evaluates)")
        self.check("division", r"conditions.def:\d+: divides by steps")

    def test_size(self):
        """A file and a function that are one line too long."""
        self.check("size")
        self.write("analyzer/util/stray.c", "\n" * 500)
        self.check("size")
        self.write("analyzer/util/stray.c", "\n" * 501)
        self.write("analyzer/util/function.c", "void f(void)\n{\n" + "\tf();\n" * 61 + "}\n")
        self.write("analyzer/util/function.h", "static inline void g(void)\n{\n" + "\tf();\n" * 61 + "}\n")
        names = ["page/stray.js", "tests/page/stray.mjs", "preload/record/stray.S"]
        for name in names:
            self.write(name, "\n" * 501)
        self.check("size", "analyzer/util/stray.c has 501 lines", "analyzer/util/function.[ch]:2: a function of 61 lines",
                   "analyzer/util/function.h:2: a function of 61 lines", *(name + " has 501 lines" for name in names))

    def test_folder(self):
        """A file beside the folders of analyzer/, and a folder with too many files."""
        self.check("folder")
        self.write("analyzer/stray.c", "")
        for number in range(46):
            self.write("analyzer/diagnose/stray%d.c" % number, "")
        self.check("folder", "analyzer/stray.c: beside the folders", "analyzer/diagnose has [0-9]+ files, 45 at most")

    def test_circle(self):
        """Two files that call each other; an allowed circle that a third file joins."""
        self.check("circle")
        self.write("analyzer/util/one.c", "void one_call(void)\n{\n\ttwo_call();\n}\n")
        self.write("analyzer/util/two.c", "void two_call(void)\n{\n\tone_call();\n}\n")
        self.write("preload/sim/device/third.c", "void third_call(void)\n{\n\tpool_heap(0);\n}\n")
        with open(os.path.join(self.copy, "preload/sim/device/memory.c")) as f:
            self.write("preload/sim/device/memory.c", f.read() + "\nvoid memory_stray(void)\n{\n\tthird_call();\n}\n")
        self.check("circle", "a circle of 2 files.*: analyzer/util/one.c analyzer/util/two.c",
                   "a circle of 3 files.*: preload/sim/device/memory.c preload/sim/device/pool.c preload/sim/device/third.c")

    def test_unit(self):
        """A folder of tests/unit without the folder of analyzer/ that it mirrors; the one that is named as an exception."""
        self.write("tests/unit/fuzz/fuzz_stray.c", "")
        self.write("tests/unit/util/test_stray.c", "")
        self.check("unit")
        self.write("tests/unit/nowhere/test_stray.c", "")
        self.check("unit", "tests/unit/nowhere: there is no analyzer/nowhere")

    def test_without_clang_format(self):
        """What cannot be checked is not clean."""
        done = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "lint", "layers.py"), "--repo", self.copy, "--rule", "format"],
                              stdout=subprocess.PIPE, text=True, env={"PATH": self.temporary.name})
        self.assertEqual((done.returncode, "lint: [format] no clang-format 14" in done.stdout), (1, True), done.stdout)

    def test_format(self):
        self.write("analyzer/util/stray.c", "int   f( void ) { return 1; }\n")
        self.check("format", "analyzer/util/stray.c:1: clang-format")


@unittest.skipUnless(os.path.basename(BUILD) in ("build", "build-clang"), "a sanitizer's library calls what lint forbids")
class Script(unittest.TestCase):
    """tests/lint/lint.sh in a repository that is a copy of this one."""

    def test_faults(self):
        with tempfile.TemporaryDirectory() as copy:
            for name in ("analyzer", "preload", "include", "libc", "tests/lint", "CONTRIBUTING.md", ".clang-format", ".gitignore"):
                source, target = os.path.join(ROOT, name), os.path.join(copy, name)
                (shutil.copytree if os.path.isdir(source) else shutil.copy)(source, target)
            subprocess.run("git init -q && git add -A", shell=True, cwd=copy, check=True)

            def lint():
                done = subprocess.run(["tests/lint/lint.sh", BUILD, "2.34", "2.34"], cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                return done.returncode, done.stdout
            self.assertEqual(lint(), (0, "lint: clean\n"))
            os.rename(os.path.join(copy, "analyzer/report/report.c"), os.path.join(copy, "analyzer/util/report.c"))
            for name, text in (("analyzer/trace/stray.h", "struct session {\n\tint x;\n};\n"), ("analyzer/util/stray.h", "void report_release(struct report *r);\n")):
                with open(os.path.join(copy, name), "w") as f:
                    f.write(text)
            status, said = lint()
            self.assertEqual((status, "clean" in said), (1, False), said)
            for words in (r"\[include\] analyzer/util/report.c:\d+: includes report.h of analyzer/report", r"\[tag\] .*struct session is also defined at analyzer/",
                          r"\[prototype\] analyzer/util/stray.h:1: declares report_release\(\), which analyzer/util/report.c defines"):
                self.assertRegex(said, "(?m)^lint: " + words)


if __name__ == "__main__":
    unittest.main()
