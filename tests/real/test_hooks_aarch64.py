"""The preload on aarch64: cross-built, and run by qemu on this machine. dlsym's own code, look-ups by version, counters, children."""
import glob
import os
import re
import shutil
import subprocess
import unittest

from harness import ROOT, environment, mtr
from hooks import build, cuda_headers
from test_hooks_device import Programs

CC, QEMU, LIBC = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
OPTIONS = ["-std=gnu17", "-O2", "-g", "-Wall", "-Wextra", "-Wno-deprecated-declarations", "-fPIC", "-fvisibility=hidden"]


@unittest.skipUnless(shutil.which(CC) and shutil.which(QEMU), "no %s or %s here (gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)" % (CC, QEMU))
class Aarch64(Programs):
    @classmethod
    def setUpClass(cls):
        cls.folder = os.path.join(ROOT, "build", "aarch64")
        os.makedirs(cls.folder, exist_ok=True)
        cls.include = cuda_headers.installed()
        cls.preload = os.path.join(cls.folder, "libmemtrace.so")
        sources = sorted(glob.glob(os.path.join(ROOT, "preload", "*.c")) + glob.glob(os.path.join(ROOT, "preload", "*", "*.[cS]")))
        cls.cross(cls.preload, sources, "-shared", "-fno-semantic-interposition", "-I" + os.path.join(ROOT, "include"), "-I" + os.path.join(ROOT, "preload"), "-I" + cls.include, "-include", "memtrace/old_libc.h",
                  '-DMEMTRACE_VERSION="cross"', "-Werror", "-Wl,-z,relro,-z,now", "-Wl,-e,writer_start", "-Wl,-Bsymbolic", "-Wl,-z,defs",
                  "-Wl,--version-script=" + os.path.join(ROOT, "preload", "hooks", "dlsym.map"))

    @staticmethod
    def cross(out, sources, *options):
        sources = [s if os.path.isabs(s) else os.path.join(build.HERE, s) for s in ([sources] if isinstance(sources, str) else sources)]
        done = subprocess.run([CC, *OPTIONS, *sources, "-o", out, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode or done.stdout:
            raise AssertionError(done.stdout)
        return out

    def emulate(self, *command, preloads=None, **settings):
        text = settings.pop("INPUT", None)
        settings = dict({"MEMTRACE_DIR": self.traces, "MEMTRACE_STACK_MIN": 0, "MEMTRACE_QUIET": 1}, **settings)
        inner = ["LD_PRELOAD=" + ":".join([self.preload] if preloads is None else preloads)] + ["%s=%s" % s for s in settings.items()]
        done = subprocess.run([QEMU, "-L", LIBC, *[a for s in inner for a in ("-E", s)], *command], env=environment(), cwd=self.dir,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, input=text)
        said = re.sub(r"^qemu: uncaught target signal .*\n", "", done.stderr, flags=re.M)  # of a child that is meant to die
        self.assertEqual((done.returncode, said), (0, ""), done.stdout)
        return done.stdout

    def copies(self):
        plugins = []
        for n, name in ((1, "libcudart.so.12"), (2, "libcudart.so.13")):
            runtime = self.cross(os.path.join(self.dir, name), "copies.c", "-shared", "-DCOPY=%d" % n, "-fvisibility=default", "-Wl,-soname," + name)
            plugins.append(self.cross(os.path.join(self.dir, "plugin%d.so" % n), "copies.c", "-shared", "-O1", "-DPLUGIN=%d" % n,
                                      "-fvisibility=default", runtime, "-Wl,-rpath," + self.dir))
        return self.cross(os.path.join(self.dir, "program"), "copies.c", "-O0"), plugins

    def test_floor(self):
        """The library loads with the first C library of aarch64, and needs no other library; so does the simulated device, linked with the stand-ins."""
        check, folder = os.path.join(ROOT, "tests", "lint", "glibc_floor.sh"), self.folder
        subprocess.run([check, "2.17", self.preload], check=True)
        needed = subprocess.run(["readelf", "-d", self.preload], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(sorted(re.findall(r"NEEDED.*\[(.*)\]", needed)), ["ld-linux-aarch64.so.1", "libc.so.6"])
        stubs = []
        for name in ("libpthread.so.0", "libdl.so.2"):
            stubs.append(os.path.join(folder, name))
            self.cross(stubs[-1], os.path.join(ROOT, "libc", name + ".S"), "-shared", "-nostdlib", "-Wl,-soname," + name,
                       "-Wl,--version-script=" + os.path.join(ROOT, "libc", "stub.map"))
        sources = sorted(s for s in glob.glob(os.path.join(ROOT, "preload", "sim", "*", "*.c")) if not s.endswith("nvml.c"))
        device = self.cross(os.path.join(folder, "libcudasim.so"), sources, "-shared", *("-I" + os.path.join(ROOT, *folder) for folder in (("include",), ("preload", "sim"))), "-I" + self.include,
                            "-include", "memtrace/old_libc.h", '-DMEMTRACE_VERSION="cross"', *stubs, "-lrt")
        subprocess.run([check, "2.27", device], check=True)

    def test_counts(self):
        """Allocations and frees of two runtimes, jumps, children, libraries loaded again: each is recorded once."""
        program, plugins = self.copies()
        for scenario in ("two", "jump", "fork", "reload"):
            with self.subTest(scenario=scenario):
                self.traces = os.path.join(self.dir, scenario)
                self.check(self.emulate(program, scenario, *plugins))

    def test_scope(self):
        program, plugins = self.copies()
        plain = self.emulate(program, "scope", plugins[0], preloads=[])
        self.assertIn("default not found", plain)
        self.assertEqual(self.emulate(program, "scope", plugins[0]), plain)

    def test_dlsym_and_dlvsym(self):
        """Answers with and without the preload are the same, for every caller and form of the question."""
        names = self.cross(os.path.join(self.dir, "libnames.so"), "names.c", "-shared", "-O0")
        second = self.cross(os.path.join(self.dir, "second.so"), "second.c", "-shared", "-O0", "-Wno-infinite-recursion")
        program = self.cross(os.path.join(self.dir, "look"), "look.c", "-O0", "-Wno-nonnull")
        for behind in ([], [second]):
            plain = self.emulate(program, names, preloads=behind)
            self.assertIn("undefined symbol: cudaMalloc", plain)
            self.assertEqual(self.emulate(program, names, preloads=[self.preload, *behind]), plain)

    def test_cuGetProcAddress(self):
        """Over a fake driver: the wrapper of the requested interface answers each question."""
        driver = build.fake_driver(self.dir, self.include, stub="mov w0, #0; ret", make=lambda out, source, *options: self.cross(
            out, source, "-shared", *options))
        program = self.cross(os.path.join(self.dir, "ask"), "ask.c", driver, "-I" + self.include)
        questions = [("cuMemAlloc", 13000, 0), ("cuMemAlloc", 2000, 0), ("cuMemAllocAsync", 12000, 2), ("cuMemFree", 99999, 0), ("cuLaunchKernel", 12000, 0)]
        wanted = ["cuMemAlloc_v2", "cuMemAlloc", "cuMemAllocAsync_ptsz", "cuMemFree_v2", None]
        out = self.emulate(program, INPUT="".join("%s %d %d\n" % q for q in questions), LD_LIBRARY_PATH=self.dir)
        base, = (int(a, 16) for p, a in re.findall(r"^base (\S+) (\S+)$", out, re.M) if p == self.preload)
        nm = subprocess.run(["nm", "-D", "--defined-only", self.preload], check=True, stdout=subprocess.PIPE, text=True).stdout
        exports = {int(l.split()[0], 16): l.split()[2] for l in nm.splitlines()}
        answers = [l.split()[1:] for l in out.splitlines() if l.startswith("got")]
        self.assertEqual([exports.get(int(a[5], 16) - base) for a in answers], wanted)


if __name__ == "__main__":
    unittest.main()
