"""dlsym through memtrace is dlsym: for every name that is not hooked the same answer, for every caller; and programs without
CUDA do not notice the preload."""
import os
import shutil
import subprocess
import sys

from harness import PRELOAD, SIM, Case, environment, mtr, python
from hooks import build


class Dlsym(Case):
    def setUp(self):
        super().setUp()
        self.names = build.library(os.path.join(self.dir, "libnames.so"), "names.c", "-O0", "-ldl")
        self.second = build.library(os.path.join(self.dir, "second.so"), "second.c", "-O0", "-Wno-infinite-recursion", "-ldl")
        self.program = build.compile_(os.path.join(self.dir, "look"), "look.c", "-O0", "-Wno-nonnull", "-ldl", "-lpthread")

    def look(self, *preloads):
        done = self.run_([self.program, self.names], LD_PRELOAD=" ".join(preloads), MEMTRACE_DIR=self.traces)
        self.assertEqual(done.stderr, "")
        self.assertFalse(os.path.exists(self.traces))
        return done.stdout.splitlines()

    def test_alone(self):
        """Names that only memtrace defines are found nowhere, and dlerror() gives the same message."""
        plain = self.look()
        self.assertGreater(len(plain), 250)
        self.assertIn("handle curl_easy_init: libnames.so", "\n".join(plain))
        self.assertTrue(any(l.startswith("default nonsense: NULL") and "undefined symbol: nonsense" in l for l in plain))
        self.assertTrue(any(l.startswith("default cudaMalloc: NULL") and "undefined symbol: cudaMalloc" in l for l in plain))
        self.assertEqual(self.look(PRELOAD), plain)

    def test_after_a_second_preload(self):
        plain = self.look(self.second)
        self.assertTrue(any(l.startswith("from second getppid: libc.so") for l in plain))
        self.assertEqual(self.look(self.second, PRELOAD), plain)

    def test_before_a_second_preload(self):
        self.assertEqual(self.look(PRELOAD, self.second), self.look(self.second))

    def test_before_a_preload_with_a_dlsym_of_its_own(self):
        """The other preload is called, and its answers are passed on."""
        own = build.library(os.path.join(self.dir, "own.so"), "own_dlsym.c", "-ldl")
        plain = self.look(own)
        self.assertTrue(any(l.startswith("default ncclCommCount: own.so") for l in plain))
        self.assertTrue(any(l.startswith("handle cuMemAlloc_v2: own.so") for l in plain))
        self.assertEqual(self.look(PRELOAD, own), plain)
        self.assertEqual(self.look(own, PRELOAD), plain)


class Sanitizers(Case):
    """A host with a sanitizer starts and ends under the preload, and its reports are its own."""

    def check(self, kind, compiler):
        program = os.path.join(self.dir, "host")
        done = subprocess.run([compiler, "-g", "-O1", "-fsanitize=" + kind, os.path.join(build.HERE, "sanitized.c"), "-o", program, "-ldl",
                               "-lpthread"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            self.skipTest("%s has no -fsanitize=%s here: %s" % (compiler, kind, done.stdout[:200]))
        for preloads in ([], [PRELOAD], [PRELOAD, SIM]):
            env = environment(LD_PRELOAD=" ".join(preloads), MEMTRACE_DIR=self.traces, MEMTRACE_QUIET=1,
                              ASAN_OPTIONS="verify_asan_link_order=0:detect_leaks=0")
            done = subprocess.run(["setarch", "-R", program], env=env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                  timeout=300)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "400 %d\n" % (SIM in preloads), ""), (kind, compiler, preloads))
        trace = self.trace()
        self.assertEqual((trace.lost_events, [mtr.KINDS[r[5]] for r in trace.records()].count("DEVICE_ALLOC")), (0, 400))

    def test_address(self):
        self.check("address", "gcc")

    def test_thread(self):
        self.check("thread", "gcc")

    def test_address_clang(self):
        self.check("address", "clang")

    def test_thread_clang(self):
        self.check("thread", "clang")


class Unchanged(Case):
    """Programs that do not use CUDA: same output, same status, no file."""

    def check(self, command, prepare=None):
        results = []
        for settings in ({}, {"LD_PRELOAD": PRELOAD}):
            folder = os.path.join(self.dir, "work")
            os.mkdir(folder)
            for name, text in (prepare or {}).items():
                with open(os.path.join(folder, name), "w") as f:
                    f.write(text)
            env = environment(GIT_CONFIG_NOSYSTEM="1", HOME=folder, PYTHONDONTWRITEBYTECODE="1", **settings)
            done = subprocess.run(command, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300)
            files = sorted(os.path.relpath(os.path.join(d, n), folder) for d, _, ns in os.walk(folder) for n in ns if "/objects/" not in d)
            results.append((done.returncode, done.stdout, done.stderr, files))
            shutil.rmtree(folder)
        self.assertEqual(results[1], results[0])
        return results[0]

    def tool(self, name):
        if not shutil.which(name):
            self.skipTest("no %s here" % name)
        return name

    def test_bash(self):
        status, out, _, _ = self.check([self.tool("bash"), "-c", "for i in 1 2 3; do (echo $i | cat); done; ls nothing; exit 7"])
        self.assertEqual((status, out), (7, "1\n2\n3\n"))

    def test_git(self):
        script = ("git init -q . && git add f && git -c user.name=a -c user.email=a@b commit -q -m one --date=@0 && "
                  "git log --format=%s && git gc -q && git fsck && git diff HEAD --stat && git nonsense")
        status, out, _, files = self.check([self.tool("git") and "sh", "-c", script], {"f": "text\n"})
        self.assertEqual((status, out), (1, "one\n"))
        self.assertIn("f", files)

    def test_ninja(self):
        build_ninja = "rule cat\n  command = cat $in > $out\nbuild b: cat a\nbuild c: cat b\n"
        status, out, _, files = self.check([self.tool("ninja")], {"a": "text\n", "build.ninja": build_ninja})
        self.assertEqual(status, 0, out)
        self.assertIn("c", files)

    def test_ssl(self):
        status, out, _, _ = self.check([sys.executable, "-c", "import ssl, ctypes, sqlite3, json; print(ssl.create_default_context().protocol, "
                                        "ctypes.CDLL(None).getpid() > 0, hasattr(ctypes.CDLL(None), 'curl_easy_init'))"])
        self.assertEqual(status, 0)
        self.assertIn("False", out)

    def test_import_torch(self):
        status, out, err, _ = self.check([python(), "-c", "import torch; print(torch.__version__, torch.cuda.is_available(), "
                                          "torch.ones(3).sum().item())"])
        self.assertEqual(status, 0, err)
        self.assertIn("False 3.0", out)


if __name__ == "__main__":
    import unittest
    unittest.main()
