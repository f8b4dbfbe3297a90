"""`make install`: the command finds its parts, the pages are found by name, the shells' completion lies where shells look; also without /proc."""
import glob
import os
import re
import shutil
import subprocess
import unittest

from harness import ROOT, Case, environment
from test_docs import commands, output

JOB = """
import ctypes
cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(3 << 20)) == 0
"""


class Install(Case):
    @classmethod
    def setUpClass(cls):
        cls.root = os.path.join(ROOT, "build", "installed")
        cls.addClassCleanup(shutil.rmtree, cls.root, True)
        subprocess.run(["make", "-s", "install", "PREFIX=/usr", "DESTDIR=" + cls.root], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
        cls.usr = os.path.join(cls.root, "usr")
        cls.memtrace = os.path.join(cls.usr, "bin", "memtrace")

    def test_parts(self):
        """The recorder, the simulated device and its modules are found from the command; a job runs on them and is reported."""
        path = self.run_([self.memtrace, "preload-path"]).stdout.strip()
        self.assertEqual(path, os.path.join(self.usr, "lib", "memtrace", "libmemtrace.so"))
        self.run_(["/bin/true"], LD_PRELOAD=path)
        self.run_([self.memtrace, "simulate", "-o", self.traces, "--", "python3", "-c", JOB])
        report = self.run_([self.memtrace, self.traces]).stdout
        self.assertIn("simulated", report)
        modules = {os.path.basename(p) for p in glob.glob(os.path.join(ROOT, "analyzer", "simulate", "python", "*.py"))}
        self.assertEqual(set(os.listdir(os.path.join(self.usr, "lib", "memtrace", "cudasim", "python"))), modules)

    @unittest.skipUnless(shutil.which("mandb"), "no man-db here")
    def test_whatis(self):
        """whatis knows memtrace and each command by the name of its page, and has its summary."""
        man = os.path.join(self.usr, "share", "man")
        self.run_(["mandb", "-q", "-u", "-c", man], MANPATH=man)
        for name in "memtrace", "memtrace-config", "memtrace-python", *("memtrace-" + c for c in commands()):
            with self.subTest(name):
                self.assertRegex(self.run_(["whatis", "-M", man, name]).stdout, r"\A%s \([157]\) +- \w" % name)

    @unittest.skipUnless(shutil.which("mandb"), "no man-db here")
    def test_synopsis(self):
        """Each page's synopsis begins with the words that one types."""
        for command in commands():
            with self.subTest(command):
                page = self.run_(["man", "-l", os.path.join(self.usr, "share", "man", "man1", "memtrace-%s.1" % command)], MANWIDTH=100, LC_ALL="C").stdout
                self.assertRegex(page, r"\nSYNOPSIS\n +memtrace %s(\s|$)" % command)

    def test_completion(self):
        for shell, place in ("bash", "bash-completion/completions/memtrace"), ("zsh", "zsh/site-functions/_memtrace"), ("fish", "fish/vendor_completions.d/memtrace.fish"):
            with open(os.path.join(self.usr, "share", place)) as f:
                self.assertEqual(f.read(), output("completion", shell))

    def test_links(self):
        """A link to the command, as package managers make them, changes nothing."""
        link = os.path.join(self.dir, "memtrace")
        os.symlink(self.memtrace, link)
        self.assertEqual(self.run_([link, "preload-path"]).stdout, self.run_([self.memtrace, "preload-path"]).stdout)

    def test_module(self):
        """The Python module is installed whole, if there is one."""
        sources = glob.glob(os.path.join(ROOT, "preload", "module", "memtrace", "*.py"))
        found = glob.glob(os.path.join(self.usr, "lib", "**", "memtrace", "*.py"), recursive=True)
        self.assertEqual({os.path.basename(p) for p in found}, {os.path.basename(p) for p in sources})

    def test_without_proc(self):
        """Started by a path, by a relative one and by PATH: the parts are found, a job runs, and its trace is read."""
        if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
            self.skipTest("no mount namespace can be had here")
        script = """mount -t tmpfs none /proc && test ! -e /proc/self || exit 99
            cd {folder} && PATH={folder}:$PATH
            {folder}/memtrace preload-path && ./memtrace preload-path && memtrace preload-path || exit 98
            memtrace simulate -o {traces} -- python3 -c '{job}' && memtrace report --json {traces} >{traces}/report &&
            memtrace run -o {traces} -- true""".format(folder=os.path.dirname(self.memtrace), traces=self.traces, job=JOB)
        done = subprocess.run(["unshare", "--mount", "sh", "-c", script], env=environment(MEMTRACE_QUIET="1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True, timeout=120)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(done.stdout.split(), [os.path.join(self.usr, "lib", "memtrace", "libmemtrace.so")] * 3)
        with open(os.path.join(self.traces, "report")) as f:
            self.assertRegex(re.sub(r"\s", "", f.read()), r'"device_bytes":[1-9]')


if __name__ == "__main__":
    unittest.main()
