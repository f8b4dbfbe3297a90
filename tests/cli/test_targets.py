"""The targets of `make help`: each can be made, as far as that can be seen without running it for minutes."""
import glob
import os
import re
import subprocess
import sys
import tempfile
import unittest

from harness import BUILD, ROOT


def make(*arguments):
    return subprocess.run(["make", "--no-print-directory", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")})


class Targets(unittest.TestCase):
    def test_each_can_be_made(self):
        """make -n accepts every target of the list, and each file under tests/ or examples/ that it would start exists."""
        targets = re.findall(r"(?m)^([a-z-]+)  ", make("help").stdout)
        self.assertGreater(len(targets), 15)
        for target in targets:
            with self.subTest(target):
                done = make("-n", "BUILD=" + os.path.relpath(BUILD, ROOT), target)
                self.assertEqual(done.returncode, 0, done.stdout[-2000:])
                for path in re.findall(r"(?<![\w/])(?:tests|examples)/[\w/.-]+\.(?:py|sh|c|txt|def)\b", done.stdout):
                    self.assertTrue(os.path.exists(os.path.join(ROOT, path)), path)

    def test_python(self):
        """Every Python file compiles, and those that a target starts import what they need."""
        for path in glob.glob(os.path.join(ROOT, "tests", "**", "*.py"), recursive=True):
            with open(path) as f:
                compile(f.read(), path, "exec")
        for path in ("accuracy/accuracy.py", "match/match_runs.py", "match/categories.py", "long/coverage.py", "long/faults.py", "gpu/run.py", "long/matrix.py", "long/soak.py"):
            code = "import runpy, sys; sys.path.insert(0, %r); runpy.run_path(%r, run_name='imported')"
            script = os.path.join(ROOT, "tests", path)
            done = subprocess.run([sys.executable, "-c", code % (os.path.dirname(script), script)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual((done.returncode, done.stdout), (0, ""))

    def test_cuda_headers(self):
        """The folder that has cuda.h is taken; a toolkit's folder without headers is passed over."""
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "include"))
            shown = ["--eval", "shown: ; @echo found:$(CUDA)", "shown", "CUDA_HOME=" + folder]
            self.assertNotIn(folder, make(*shown).stdout)
            open(os.path.join(folder, "include", "cuda.h"), "w").close()
            self.assertIn("found:%s/include\n" % folder, make(*shown).stdout)

    def test_setup_without_apt(self):
        """On another distribution than Debian's it says what to install, and goes on."""
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "include"))
            open(os.path.join(folder, "include", "cuda.h"), "w").close()
            done = subprocess.run(["/bin/sh", os.path.join(ROOT, "tests", "setup.sh"), "build"], env={"PATH": folder, "HOME": folder, "CUDA_HOME": folder},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("jansson, libyaml, zlib, SQLite, protobuf-c, ncurses and uthash", done.stdout)

    def test_shell(self):
        for path in glob.glob(os.path.join(ROOT, "tests", "**", "*.sh"), recursive=True) + [os.path.join(ROOT, "examples", "demo.sh")]:
            subprocess.run(["sh", "-n", path], check=True)


if __name__ == "__main__":
    unittest.main()
