"""The targets of `make help`: each can be made, as far as that can be seen without running it for minutes."""
import glob
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
import unittest
import zipfile

from harness import BUILD, ROOT


def make(*arguments):
    return subprocess.run(["make", "--no-print-directory", *arguments], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MAKELEVEL")})


def sha256(path):
    with open(path, "rb") as f:
        return hashlib.sha256(f.read()).hexdigest()


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

    def test_install_without_python(self):
        """Without python3 the module goes to the folder of Debian's Python; never to the root of the file system."""
        with tempfile.TemporaryDirectory() as folder:
            os.symlink("/bin/sh", os.path.join(folder, "sh"))
            for prefix in "/usr", "/opt/memtrace":
                done = subprocess.run([shutil.which("make"), "-s", "--eval", "shown: ; @echo found:$(PYTHONDIR);", "shown", "PREFIX=" + prefix], cwd=ROOT,
                                      stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env={"PATH": folder, "HOME": folder})
                self.assertEqual(done.stdout, "found:%s/lib/python3/dist-packages\n" % prefix)

    def test_setup_without_apt(self):
        """On another distribution than Debian's it says what to install, and goes on."""
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "include"))
            open(os.path.join(folder, "include", "cuda.h"), "w").close()
            done = subprocess.run(["/bin/sh", os.path.join(ROOT, "tests", "setup.sh"), "build"], env={"PATH": folder, "HOME": folder, "CUDA_HOME": folder},
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(done.returncode, 0, done.stdout)
            self.assertIn("jansson, libyaml, zlib, SQLite, protobuf-c, ncurses and uthash", done.stdout)

    def test_setup_of_clang(self):
        """The tests install clang and the clang-format of .clang-format; where that is no package, the rest is installed and that is said."""
        for has, status in (True, 0), (False, 100):
            with self.subTest(has), tempfile.TemporaryDirectory() as folder:
                os.makedirs(os.path.join(folder, "include"))
                open(os.path.join(folder, "include", "cuda.h"), "w").close()
                log = os.path.join(folder, "log")
                programs = {"id": "echo 0", "dpkg-query": "echo not-installed", "apt-cache": "exit %d" % status, "apt-get": 'echo "$@" >>' + log}
                for name, text in programs.items():
                    with open(os.path.join(folder, name), "w") as f:
                        f.write("#!/bin/sh\n%s\n" % text)
                    os.chmod(os.path.join(folder, name), 0o755)
                os.symlink(shutil.which("grep"), os.path.join(folder, "grep"))
                done = subprocess.run(["/bin/sh", os.path.join(ROOT, "tests", "setup.sh")], env={"PATH": folder, "HOME": folder, "CUDA_HOME": folder},
                                      stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
                self.assertEqual(done.returncode, 0, done.stdout)
                with open(log) as f:
                    installed = f.read().split("install ", 1)[1].split()
                self.assertIn("clang", installed)
                self.assertEqual("clang-format-14" in installed, has)
                self.assertEqual("there is no package clang-format-14 here" in done.stdout, not has)

    def test_without_clang(self):
        """make test without clang says that its build is left out, and counts it as skipped."""
        code = ("import shutil, sys; sys.path.insert(0, %r); import run; shutil.which = lambda name: None; run.step = None; run.with_clang(); "
                "print(run.skipped)" % os.path.join(ROOT, "tests"))
        done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.assertEqual((done.returncode, done.stdout.splitlines()), (0, ["skip    make CC=clang: there is no clang", "[('make CC=clang', 'there is no clang')]"]))

    @unittest.skipUnless(os.path.basename(BUILD) == "build", "the objects of another build are not linked here")
    def test_gpu_kit(self):
        """The package for a machine with a GPU has the script that it says to run, and programs that start here."""
        done = make("BUILD=" + os.path.relpath(BUILD, ROOT), "gpu-kit")
        self.assertEqual(done.returncode, 0, done.stdout[-2000:])
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run(["tar", "-C", folder, "-xzf", os.path.join(BUILD, "gpu-kit.tar.gz")], check=True)
            kit = os.path.join(folder, "gpu-kit")
            for name in "tests/gpu/run.py", "tests/jobs", "examples/train_gpt2.py", "build/libmemtrace.so", "build/cudasim/libcuda.so.1", "build/bench/hook_cost.so":
                self.assertTrue(os.path.exists(os.path.join(kit, name)), name)
            said = subprocess.run([os.path.join(kit, "build", "memtrace"), "--version"], stdout=subprocess.PIPE, text=True)
            self.assertEqual((said.returncode, said.stdout.split()[0]), (0, "memtrace"))

    def test_page_libraries(self):
        """A file of the cache that is not the pinned one is fetched anew; if it cannot be, no page has it."""
        pinned = os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "memtrace", "page")
        if not os.path.isdir(pinned):
            self.skipTest("the libraries of the page were not fetched")
        with open(os.path.join(ROOT, "tests", "setup.sh")) as f:
            listed = re.findall(r"(?m)^\t(\w+)==(\S+) (\S+) ([0-9a-f]{64})$", f.read())
        sums = {os.path.basename(path): wanted for _, _, path, wanted in listed}
        with tempfile.TemporaryDirectory() as folder:
            os.makedirs(os.path.join(folder, "include"))
            open(os.path.join(folder, "include", "cuda.h"), "w").close()
            for program in "sh", "rm", "mkdir", "mv", "cp", "cat", "sha256sum":
                os.symlink(shutil.which(program), os.path.join(folder, program))
            for wheel, version, path, _ in listed:
                with zipfile.ZipFile(os.path.join(folder, "%s-%s-py3.whl" % (wheel, version)), "a") as z:
                    z.write(os.path.join(pinned, os.path.basename(path)), path)

            def setup(downloads):
                with open(os.path.join(folder, "python3"), "w") as f:  # in the place of pip
                    f.write('#!/bin/sh\n[ "$1" != -m ] || { %s; exit; }\nexec %s "$@"\n' % (downloads, sys.executable))
                os.chmod(os.path.join(folder, "python3"), 0o755)
                done = subprocess.run([shutil.which("sh"), os.path.join(ROOT, "tests", "setup.sh"), "build"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                      text=True, env={"PATH": folder, "HOME": folder, "CUDA_HOME": folder})
                self.assertEqual(done.returncode, 0, done.stdout)
                cache = os.path.join(folder, ".cache", "memtrace", "page")
                return done.stdout, {name: sha256(os.path.join(cache, name)) for name in (os.listdir(cache) if os.path.isdir(cache) else ())}

            fetches = "cp %s/*.whl %s/.cache/memtrace/page.new/" % (folder, folder)
            said, first = setup(fetches)
            self.assertIn("fetching the libraries", said)
            self.assertEqual(first, sums)
            said, again = setup("false")
            self.assertNotIn("the libraries of the page", said)
            self.assertEqual(again, sums)
            for downloads, left, word in (fetches, sums, "fetching the libraries"), ("false", {}, "could not be fetched"):
                with open(os.path.join(folder, ".cache", "memtrace", "page", "echarts.min.js"), "a") as f:
                    f.write("// another version")
                said, found = setup(downloads)
                self.assertIn(word, said)
                self.assertEqual(found, left)

    def test_shell(self):
        for path in glob.glob(os.path.join(ROOT, "tests", "**", "*.sh"), recursive=True) + [os.path.join(ROOT, "examples", "demo.sh")]:
            subprocess.run(["sh", "-n", path], check=True)


if __name__ == "__main__":
    unittest.main()
