"""The house rules that `make lint` holds can fail."""
import os
import re
import subprocess
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


if __name__ == "__main__":
    unittest.main()
