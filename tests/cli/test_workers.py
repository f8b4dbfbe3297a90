"""tests/workers.py: every test that was found is counted, whatever happens to the process that runs it."""
import glob
import json
import os
import subprocess
import sys
import tempfile
import unittest

from harness import ROOT
import run
import workers

MODULES = {
    "test_good": """
class Good(unittest.TestCase):
    def test_a(self): pass
    def test_b(self):
        for i in range(3):
            with self.subTest(i=i): self.assertNotEqual(i, 1)
    def test_c(self): self.skipTest("not here")
""",
    "test_dies": """
class Dies(unittest.TestCase):
    def test_a(self): pass
    def test_b(self): os.kill(os.getpid(), 9)
    def test_c(self): pass
    def test_d(self): pass
""",
    "test_hangs": """
class Hangs(unittest.TestCase):
    def test_a(self): time.sleep(100)
""",
    "test_ends_badly": """
class EndsBadly(unittest.TestCase):
    def test_a(self): atexit.register(os._exit, 3)
""",
    "test_fixtures": """
class Fails(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise OSError("no disk")
    def test_a(self): pass
class Skips(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise unittest.SkipTest("no root")
    def test_a(self): pass
    def test_b(self): pass
""",
    "test_no_import": "import there_is_no_such_module\n",
    # What runs alone finds nobody else's mark, and the two of a group are one process.
    "test_first": """
class Marks(unittest.TestCase):
    def test_a(self):
        time.sleep(0.5)
        open("mark", "w").close()
class Alone(unittest.TestCase):
    runs_alone = True
    def test_a(self): self.assertTrue(os.path.exists("mark"))
""",
    "test_second": """
class Marks(unittest.TestCase):
    def test_a(self): self.assertTrue(os.path.exists("mark"))
""",
}


SCRIPT = """
import json, sys, workers
w = workers.Workers([sys.argv[1]], {"test_good": 5, "test_dies": 9}, float(sys.argv[2]))
found = workers.tasks(w.folders, sys.argv[3:], [["test_first", "test_second"]])
w.run(found, 1)
print(json.dumps({"found": sum(len(t.tests) for t in found), "passed": w.passed, "failed": w.failed, "skipped": w.skipped, "texts": dict(w.texts)}))
"""


class Split(unittest.TestCase):
    def run_all(self, *names, silence=60, patterns=()):
        """Runs the modules; returns what became of the tests, and the lines that were printed before."""
        with tempfile.TemporaryDirectory() as folder:
            for name in names:
                with open(os.path.join(folder, name + ".py"), "w") as f:
                    f.write("import atexit, os, time, unittest\n" + MODULES[name])
            done = subprocess.run([sys.executable, "-c", SCRIPT, folder, str(silence), *patterns], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                  text=True, env={**os.environ, "PYTHONPATH": os.path.join(ROOT, "tests")})
        self.assertEqual(done.returncode, 0, done.stdout)
        *lines, last = done.stdout.splitlines()
        return json.loads(last), lines

    def test_each_counts_once(self):
        """A test of which a part fails has failed; one that passes after another module died still counts."""
        result, lines = self.run_all("test_good", "test_dies")
        self.assertEqual((result["found"], result["passed"], result["skipped"]), (7, 2, ["test_good.Good.test_c"]))
        self.assertEqual(result["failed"], ["test_dies", "test_good.Good.test_b (i=1)"])
        self.assertIn("status -9; 3 of its 4 tests did not run: test_dies.Dies.test_b ", result["texts"]["test_dies"])
        self.assertIn("1 == 1", result["texts"]["test_good.Good.test_b (i=1)"])
        self.assertEqual(lines[0].split()[:2], ["ok", "test_dies.Dies.test_a"])     # the longer module begins
        self.assertRegex("\n".join(lines), r"(?m)^ok      test_good.Good.test_a  \d+\.\d s")

    def test_hangs(self):
        result, _ = self.run_all("test_hangs", silence=1)
        self.assertEqual((result["passed"], result["failed"]), (0, ["test_hangs"]))
        self.assertIn("said nothing for 1 s and was ended; 1 of its 1 tests did not run", result["texts"]["test_hangs"])

    def test_status_after_the_last_test(self):
        result, _ = self.run_all("test_ends_badly")
        self.assertEqual((result["passed"], result["failed"], result["texts"]["test_ends_badly"]), (1, ["test_ends_badly"], "the process ended with status 3"))

    def test_fixtures(self):
        """The tests of a class that cannot begin are failures or, if that is why, skipped."""
        result, _ = self.run_all("test_fixtures")
        self.assertEqual((result["found"], result["passed"], result["failed"]), (3, 0, ["setUpClass (test_fixtures.Fails)"]))
        self.assertEqual(result["skipped"], ["test_fixtures.Skips.test_a", "test_fixtures.Skips.test_b"])

    def test_module_that_cannot_be_imported(self):
        result, _ = self.run_all("test_no_import")
        self.assertEqual((result["found"], result["passed"], len(result["failed"])), (1, 0, 1))
        self.assertIn("there_is_no_such_module", *result["texts"].values())

    def test_alone_and_together(self):
        result, lines = self.run_all("test_second", "test_first")
        self.assertEqual((result["passed"], result["failed"]), (3, []), result["texts"])
        self.assertEqual([line.split()[1] for line in lines], ["test_first.Marks.test_a", "test_second.Marks.test_a", "test_first.Alone.test_a"])

    def test_patterns(self):
        result, _ = self.run_all("test_first", "test_second", patterns=["test_first.Marks"])
        self.assertEqual((result["found"], result["passed"]), (1, 1))


class Groups(unittest.TestCase):
    def test_modules_exist(self):
        """What is a group, and what has a place in the order, are modules of the tests."""
        names = {os.path.basename(path)[:-3] for folder in ("cli", "real") for path in glob.glob(os.path.join(ROOT, "tests", folder, "test_*.py"))}
        self.assertLessEqual({name for group in workers.TOGETHER for name in group}, names)
        self.assertLessEqual({name for row in run.start_order() for name in row.split()}, names)


if __name__ == "__main__":
    unittest.main()
