"""The packages of `make dist`, installed as a user does: the wheel by pip, the .deb by apt, in clean roots of Debian 11, 12 and 13.

A root is made by mmdebstrap and removed after its tests; that needs root, and 400 MiB of disk for each."""
import contextlib
import glob
import json
import os
import re
import shutil
import subprocess
import tempfile
import unittest
import zipfile

from harness import MEMTRACE, ROOT, Case, environment, mtr, python
from hooks import build

DIST = os.path.join(ROOT, "build", "dist")
TOOLS = os.path.join(ROOT, "packaging", "tools.sh")
CROSS, QEMU, LIBC = "aarch64-linux-gnu-gcc", "qemu-aarch64", "/usr/aarch64-linux-gnu"
PYTHON_JOB = """
import ctypes
cuda, context, block = ctypes.CDLL("libcuda.so.1"), ctypes.c_void_p(), ctypes.c_uint64()
assert cuda.cuInit(0) == 0 and cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0) == 0 and cuda.cuCtxSetCurrent(context) == 0
assert cuda.cuMemAlloc_v2(ctypes.byref(block), ctypes.c_size_t(3 << 20)) == 0
"""
TORCH_JOB = """
import torch
model = torch.nn.Linear(1024, 1024, device="cuda")
optimizer = torch.optim.AdamW(model.parameters())
for _ in range(3):
    model(torch.randn(64, 1024, device="cuda")).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
print(torch.cuda.max_memory_allocated())
"""


def make(*parts):
    done = subprocess.run(["make", "-s", "dist", "PARTS=" + " ".join(parts)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode:
        raise AssertionError(done.stdout)


def package(pattern):
    path, = glob.glob(os.path.join(DIST, pattern))
    return path


class Packed(Case):
    """What is packed loads with old C libraries: RHEL 7's, and RHEL 8's with the command or the simulated device."""

    def check_floors(self, memtrace, libraries):
        floors = {memtrace: "2.28", **{path: "2.28" for path in glob.glob(libraries + "/*.so")}, libraries + "/libmemtrace.so": "2.17"}
        self.assertEqual(len(floors), 4)
        for path, floor in floors.items():
            self.run_([os.path.join(ROOT, "tests", "lint", "glibc_floor.sh"), floor, path])


class Here(Packed):
    """On this machine."""

    @classmethod
    def setUpClass(cls):
        make("deb", "wheel")
        cls.folder = tempfile.mkdtemp(prefix="memtrace-dist-")
        cls.addClassCleanup(shutil.rmtree, cls.folder)
        cls.venv = os.path.join(cls.folder, "venv")
        subprocess.run(["python3", "-m", "venv", cls.venv], check=True)
        subprocess.run([cls.venv + "/bin/pip", "install", "-q", "--disable-pip-version-check", "--no-index", package("*x86_64.whl")], check=True)

    def test_wheel(self):
        """What it needs of the system, by auditwheel; the command finds its parts; a job is recorded."""
        tools = subprocess.run([TOOLS], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        said = self.run_([tools + "/bin/auditwheel", "show", package("*x86_64.whl")]).stdout
        self.assertRegex(" ".join(said.split()), r'consistent with the following platform tag: "manylinux_2_(17|27|28)_x86_64"')
        memtrace = self.venv + "/bin/memtrace"
        path = self.run_([memtrace, "preload-path"]).stdout.strip()
        self.assertEqual(path, os.path.join(self.venv, "lib", "memtrace", "libmemtrace.so"))
        self.check_floors(memtrace, os.path.dirname(path))
        self.run_(["/bin/true"], LD_PRELOAD=path)
        self.run_([memtrace, "simulate", "-o", self.traces, "--", self.venv + "/bin/python", "-c", PYTHON_JOB])
        self.assertGreater(self.report()["ranks"][0]["peak"]["device_bytes"], 3 << 20)
        self.run_([self.venv + "/bin/python", "-c", "import memtrace; from memtrace import command; assert command.find() == %r" % memtrace])
        self.assertIn("memtrace.pytest_plugin", self.run_([self.venv + "/bin/python", "-c", "import importlib.metadata as m; print(m.distribution('memtrace').entry_points)"]).stdout)
        page = os.path.join(self.dir, "page.html")
        self.run_([memtrace, "html", self.traces, "-o", page])
        self.assertGreater(os.path.getsize(page), 1 << 20)

    def test_parts_of_the_wheel(self):
        """The files of an installation, and the licences of the libraries inside the command."""
        names = {name.split("/", 1)[1] for name in zipfile.ZipFile(package("*x86_64.whl")).namelist()}
        for name in ("scripts/memtrace", "data/lib/memtrace/libmemtrace.so", "data/lib/memtrace/cudasim/libcuda.so.1", "data/share/man/man1/memtrace-report.1",
                     "data/lib/memtrace/cudasim/python/sitecustomize.py", "data/share/bash-completion/completions/memtrace", "licenses/LICENSE", "licenses/uthash-dev"):
            self.assertIn(name, names)
        # Debian's sources of the archives that the command is linked with.
        with open(os.path.join(ROOT, "Makefile")) as f:
            archives = re.search(r"^LIBS_INSIDE .*", f.read(), re.M).group()
        source = {"jansson": "libjansson4", "yaml": "libyaml-0-2", "z": "zlib1g", "protobuf-c": "libprotobuf-c1", "ncursesw": "libncursesw6", "tinfo": "libncursesw6"}
        for library in re.findall(r"-l:lib([\w-]+)\.a", archives):
            self.assertIn("licenses/" + source[library], names)
        for module in glob.glob(os.path.join(ROOT, "preload", "module", "memtrace", "*.py")):
            self.assertIn(os.path.basename(module), names)

    @unittest.skipUnless(shutil.which("lintian"), "no lintian here")
    def test_lintian(self):
        """No error, and no warning."""
        done = subprocess.run(["lintian", "--fail-on=none", "--allow-root", package("*.deb")], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((done.returncode, done.stdout), (0, ""), done.stderr)


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class Aarch64(Packed):
    """The wheel for aarch64, run by qemu."""

    def setUp(self):
        super().setUp()
        if not shutil.which(CROSS) or not shutil.which(QEMU):
            self.skipTest("no %s or %s here (gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user)" % (CROSS, QEMU))
        make("aarch64")
        with zipfile.ZipFile(package("*aarch64.whl")) as z:
            z.extractall(self.dir)
        data, = glob.glob(os.path.join(self.dir, "*.data"))
        self.home = os.path.join(self.dir, "home")
        os.rename(os.path.join(data, "data"), self.home)
        os.rename(os.path.join(data, "scripts"), os.path.join(self.home, "bin"))
        self.libraries = os.path.join(self.home, "lib", "memtrace")
        for program in self.home + "/bin/memtrace", self.libraries + "/libmemtrace.so":
            os.chmod(program, 0o755)

    def emulate(self, *command, **settings):
        return self.run_([QEMU, "-L", LIBC, *[a for s in settings.items() for a in ("-E", "%s=%s" % s)], *command]).stdout

    def test_wheel(self):
        """auditwheel's verdict; its preload records a job; its command and ours report the same."""
        tools = subprocess.run([TOOLS], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        said = self.run_([tools + "/bin/auditwheel", "show", package("*aarch64.whl")]).stdout
        self.assertRegex(" ".join(said.split()), r'consistent with the following platform tag: "manylinux_2_(17|27|28)_aarch64"')
        memtrace = os.path.join(self.home, "bin", "memtrace")
        self.check_floors(memtrace, self.libraries)
        self.assertEqual(self.emulate(memtrace, "preload-path").strip(), self.libraries + "/libmemtrace.so")
        # A driver without effect: qemu would take gigabytes for the tables of the simulated device's addresses.
        job, driver, source = os.path.join(self.dir, "job"), os.path.join(self.dir, "libcuda.so.1"), os.path.join(build.HERE, "old_libc.c")
        subprocess.run([CROSS, "-O1", source, "-DDRIVER", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", driver], check=True)
        subprocess.run([CROSS, "-O1", source, "-DTHREADS=0", driver, "-Wl,-rpath,$ORIGIN", "-o", job], check=True)
        self.emulate(job, "300", LD_PRELOAD=self.libraries + "/libmemtrace.so", MEMTRACE_DIR=self.traces, MEMTRACE_STACK_MIN=0, MEMTRACE_QUIET=1)
        here = self.ended_report()
        kinds = [mtr.KINDS[r[5]] for r in self.trace().records()]
        self.assertEqual((kinds.count("DEVICE_ALLOC"), kinds.count("DEVICE_FREE")), (300, 300))
        self.assertEqual(json.loads(self.emulate(memtrace, "report", "--json", self.traces)), here)


class Root:
    """The tests of a clean root, for each of the releases below."""

    @classmethod
    def setUpClass(cls):
        if os.geteuid() != 0 or not shutil.which("mmdebstrap"):
            raise unittest.SkipTest("only root with mmdebstrap can make a root")
        if subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode:
            raise unittest.SkipTest("no mount namespace can be had here")
        make("deb", "wheel")
        cls.path = tempfile.mkdtemp(prefix="memtrace-root-")
        cls.addClassCleanup(subprocess.run, ["rm", "-rf", "--one-file-system", cls.path])
        done = subprocess.run(["mmdebstrap", "-q", "--variant=apt", "--skip=cleanup/apt", "--include=python3,python3-pip,libgomp1,ca-certificates", cls.suite, cls.path],
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode:
            raise unittest.SkipTest("mmdebstrap %s: %s" % (cls.suite, done.stdout.strip().split("\n")[-1]))
        for name in package("*x86_64.whl"), package("*.deb"):
            shutil.copy(name, os.path.join(cls.path, "srv"))
        with open(os.path.join(cls.path, "srv", "job.py"), "w") as f:
            f.write(PYTHON_JOB)
        with open(os.path.join(cls.path, "srv", "torch_job.py"), "w") as f:
            f.write(TORCH_JOB)

    def inside(self, script, binds=()):
        """Runs a shell in the root; returns its standard output."""
        outer = 'mount --rbind /proc "$0/proc" && mount --rbind /dev "$0/dev"'
        for folder in binds:
            outer += ' && mkdir -p "$0%s" && mount --bind "%s" "$0%s"' % (folder, folder, folder)
        done = subprocess.run(["unshare", "--mount", "sh", "-c", outer + ' && exec chroot "$0" /bin/sh -euc "$1"', self.path, "cd /srv\n" + script],
                              env={"PATH": "/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "HOME": "/root", "PIP_BREAK_SYSTEM_PACKAGES": "1", "DEBIAN_FRONTEND": "noninteractive",
                                   "PIP_ROOT_USER_ACTION": "ignore", "MEMTRACE_QUIET": "1", "CUDASIM_QUIET": "1", "OMP_NUM_THREADS": "1"},
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
        self.assertEqual(done.returncode, 0, "%s\n%s" % (done.stdout[-2000:], done.stderr[-4000:]))
        return done.stdout

    @contextlib.contextmanager
    def installed(self, how, remove):
        self.inside(how)
        try:
            yield
        finally:
            self.inside(remove)

    def wheel(self):
        return self.installed("pip3 install -q --no-index /srv/*.whl", "pip3 uninstall -q -y memtrace; ! command -v memtrace")

    def deb(self):
        return self.installed("apt-get install -qq -y --no-install-recommends man-db /srv/*.deb >&2", "apt-get purge -qq -y memtrace >&2; ! test -e /usr/lib/memtrace; ! test -e /usr/lib/python3/dist-packages/memtrace")

    def check(self, prefix):
        """The library loads into a program without CUDA; the module and what shells and man look for are there; a job of the root's Python is recorded, and reported as
        here."""
        self.assertEqual(self.inside("memtrace preload-path").strip(), prefix + "/lib/memtrace/libmemtrace.so")
        self.assertEqual(self.inside("python3 -c 'from memtrace import command; print(command.find())'").strip(), prefix + "/bin/memtrace")
        self.inside("cd %s/share; ls man/man1/memtrace-check.1* bash-completion/completions/memtrace zsh/*/_memtrace fish/vendor_completions.d/memtrace.fish" % prefix)
        self.inside("LD_PRELOAD=$(memtrace preload-path) /bin/true")
        there = json.loads(self.inside("rm -rf traces; memtrace simulate -o traces -- python3 job.py; memtrace report --json traces"))
        traces = os.path.join(self.path, "srv", "traces")
        here = subprocess.run([MEMTRACE, "report", "--json", traces], env=environment(), check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertEqual(there["ranks"][0]["peak"], json.loads(here)["ranks"][0]["peak"])
        self.assertGreater(there["ranks"][0]["peak"]["device_bytes"], 3 << 20)

    def test_wheel(self):
        with self.wheel():
            self.check("/usr/local")


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class Debian11(Root, unittest.TestCase):
    suite = "bullseye"


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class Debian12(Root, unittest.TestCase):
    suite = "bookworm"

    def test_deb(self):
        with self.deb():
            self.check("/usr")
            self.assertRegex(self.inside("whatis memtrace-check"), r"\Amemtrace-check \(1\) +- \w")

    def test_torch(self):
        """A training job of PyTorch, from the wheel: its peak of tensors is PyTorch's own."""
        interpreter = python()
        base = subprocess.run([interpreter, "-c", "import sys; print(sys.base_prefix)"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
        binds = [os.path.dirname(os.path.dirname(interpreter))] + [base] * (base != "/usr")    # Debian's own Python is in the root
        with self.wheel():
            told = int(self.inside("rm -rf traces; memtrace simulate -o traces -- %s torch_job.py" % interpreter, binds))
            report = json.loads(self.inside("memtrace report --json traces"))
            self.assertEqual(report["ranks"][0]["peak"]["allocated_bytes"], told)
            self.assertEqual(report["ranks"][0]["peak"]["by_category"]["parameters"], 4 * (1024 * 1024 + 1024))


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class Debian13(Root, unittest.TestCase):
    suite = "trixie"

    def test_deb(self):
        with self.deb():
            self.check("/usr")
            self.assertRegex(self.inside("whatis memtrace-check"), r"\Amemtrace-check \(1\) +- \w")


if __name__ == "__main__":
    unittest.main()
