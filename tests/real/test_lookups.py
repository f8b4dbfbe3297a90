"""Look-ups of driver functions by CUDA's own libraries: every name passes through memtrace, and each answer is right.

The real libraries run on a fake driver (tests/hooks/fake_driver.c) as far as possible. A second preload before memtrace
(tests/hooks/spy.c) logs the answers.
"""
import bisect
import collections
import concurrent.futures
import glob
import os
import re
import subprocess
import sys

from harness import PRELOAD, Case, environment
from hooks import build, cuda_headers
from test_hooks_complete import rows


def hooked():
    return {n for n, macro in rows().items() if macro != "SKIP"}


class Lookups(Case):
    maxDiff = 4000
    base = ()

    @classmethod
    def setUpClass(cls):
        cls.include = cuda_headers.installed()
        out = subprocess.run(["nm", "-D", "--defined-only", PRELOAD], check=True, stdout=subprocess.PIPE, text=True).stdout
        cls.exports = {}
        for line in out.splitlines():
            address, _, name = line.split()
            cls.exports.setdefault(int(address, 16), set()).add(name.split("@")[0])
        out = subprocess.run(["nm", PRELOAD], check=True, stdout=subprocess.PIPE, text=True).stdout
        cls.ours = sorted(int(line.split()[0], 16) for line in out.splitlines() if line.split()[1] in "tT")

    def setUp(self):
        super().setUp()
        self.driver = build.fake_driver(self.dir, self.include)
        self.spy = build.library(os.path.join(self.dir, "spy.so"), "spy.c", "-ldl")
        self.log = os.path.join(self.dir, "log")

    def run_on_fake(self, command, preloads, folders=(), **keys):
        env = environment(LD_PRELOAD=" ".join(preloads), LD_LIBRARY_PATH=":".join([self.dir, *folders]), FAKE_DRIVER_LOG=self.log,
                          SPY_LOG=self.log, MEMTRACE_DIR=self.traces)
        done = subprocess.run(command, env=env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=300, **keys)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.base = [int(a, 16) for p, a in re.findall(r"^base (\S+) (\S+)$", done.stdout, re.M) if p == PRELOAD] or self.base
        return done.stdout

    def symbols(self, address):
        """The names under which libmemtrace.so exports the function at ADDRESS; empty: it is in another library, or not exported."""
        return self.exports.get(int(address, 16) - self.base[0], set()) if address != "(nil)" else set()

    def is_memtrace(self, address):
        at = int(address, 16) - self.base[0] if address != "(nil)" else -1
        i = bisect.bisect(self.ours, at)
        return 0 <= at < self.ours[-1] + 4096 and i > 0 and self.ours[i - 1] == at

    def expected(self, name, version, flags):
        return cuda_headers.symbol(self.include, name, version, bool(flags & 2))

    def check_log(self):
        """Checks each look-up of the log against the meaning of name, version and flags; returns (look-ups, wrapped ones)."""
        with open(self.log) as f:
            lines = [line.split() for line in f]
        handed, received, direct = {}, [], []
        for kind, *rest in lines:
            if kind == "driver":
                handed.setdefault(tuple(rest[:3]), []).append(rest[3])
            elif kind == "got":
                received.append(rest)
            else:
                direct.append(rest)
        self.assertEqual(len(received), sum(map(len, handed.values())), "look-ups that did not pass through memtrace")
        self.assertEqual([a for of in handed.values() for a in of if self.is_memtrace(a)], [], "the fake driver hands out its own")
        wrong, wrapped = [], 0
        for name, version, flags, result, status, address in received:
            symbol = self.expected(name, int(version), int(flags))
            theirs = handed[name, version, flags]
            if theirs[0] == "(nil)":
                good = result != "0" and address == "(nil)"
            elif symbol in hooked():
                good = symbol in self.symbols(address)
                wrapped += 1
            else:
                good = address in theirs
            if not good:
                wrong.append((name, version, flags, symbol, sorted(self.symbols(address)), theirs, address))
        self.assertEqual(wrong, [])
        for name, address in direct:
            if name in hooked():
                self.assertIn(name, self.symbols(address), name)
                wrapped += 1
            else:
                self.assertFalse(self.is_memtrace(address), name)
        return len(received), wrapped, direct, received

    def visit(self, pattern, function, preloads=None, third=0):
        """Runs the real library on the fake driver under spy and memtrace."""
        found = [p for folder in build.cuda_libraries() for p in glob.glob(os.path.join(folder, pattern))]
        if not found:
            self.skipTest("no %s: PyTorch's wheel is not there" % pattern)
        program = build.compile_(os.path.join(self.dir, "visit"), "visit.c", "-ldl")
        out = self.run_on_fake([program, found[0], function, str(third)], preloads or [self.spy, PRELOAD], build.cuda_libraries())
        self.runtime = re.search(r"^runtime (\S+) (\S+)$", out, re.M).groups()
        return re.search(r"^result (\S+)$", out, re.M).group(1)

    def check_library(self, pattern, function, look_ups=440, by_name=1, at_least=45, **keys):
        result = self.visit(pattern, function, **keys)
        seen, wrapped, direct, received = self.check_log()
        # the same look-ups by the same library, without memtrace
        os.rename(self.log, self.log + ".with")
        self.assertEqual(self.visit(pattern, function, [self.spy], **keys), result)
        with open(self.log) as f:
            plain = [line.split() for line in f]
        mine = [tuple(r[:3]) for r in received]
        self.assertEqual(sorted(mine), sorted(tuple(l[1:4]) for l in plain if l[0] == "got"))
        self.assertEqual(sorted(n for n, _ in direct), sorted(l[1] for l in plain if l[0] == "dlsym"))
        self.assertGreaterEqual((seen, len(direct), wrapped), (look_ups, by_name, at_least))
        self.assertGreaterEqual(len(direct), by_name)
        self.assertGreaterEqual(wrapped, at_least)
        twins = sum(int(flags) & 2 > 0 for _, _, flags in mine)
        print("        %s: %d look-ups (%d per-thread), %d by dlsym; %d wrapped; %s says %s" % (
            pattern, seen, twins, len(direct), wrapped, function, result), file=sys.stderr)
        return {n for n, _ in direct}

    def test_cudart(self):
        self.check_library("libcudart.so.*", "cudaGetDeviceCount")

    def test_runtime_by_dlsym_and_dlvsym(self):
        self.visit("libcudart.so.13", "cudaGetDeviceCount")
        for address in self.runtime:
            self.assertIn("cudaMalloc", self.symbols(address))
        self.visit("libcudart.so.13", "cudaGetDeviceCount", [self.spy])
        self.assertNotIn("(nil)", self.runtime)

    def test_nccl(self):
        self.check_library("libnccl.so.2", "ncclCommInitAll")

    def deaths(self, times, **keys):
        """How many processes that NCCL starts on the driver end in which way, with what they say then."""
        found = [p for folder in build.cuda_libraries() for p in glob.glob(os.path.join(folder, "libnccl.so.2"))]
        if not found:
            self.skipTest("no libnccl.so.2: PyTorch's wheel is not there")
        program = build.compile_(os.path.join(self.dir, "visit"), "visit.c", "-ldl", "-lpthread")
        env = environment(LD_PRELOAD=PRELOAD, LD_LIBRARY_PATH=":".join([self.dir, *build.cuda_libraries()]), FAKE_DRIVER_LOG=self.log, MEMTRACE_DIR=self.traces, **keys)

        def once(_):
            done = subprocess.run([program, found[0], "ncclCommInitAll", "0"], env=env, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
            return done.returncode, done.stderr if done.returncode else b""

        with concurrent.futures.ThreadPoolExecutor(12) as pool:
            return collections.Counter(pool.map(once, range(times)))

    def test_a_driver_that_is_being_loaded_is_not_called(self):
        """The helper describes the device while NCCL loads the driver, which cannot run before all of it is relocated: 13 of 4,000 processes
        died of that."""
        self.assertEqual(self.deaths(1000), {(0, b""): 1000})

    def test_a_driver_that_is_closed_is_not_called(self):
        """The runtime in NCCL closes the driver, which it cannot use, while the helper describes the device: 102 of 1,000 processes died of that.
        One in 2,000 still does: NCCL's own thread asks for the free memory while another thread, as here, closes the driver under it."""
        ends = self.deaths(200, VISIT_RELOADS="1")
        self.assertLessEqual(200 - ends[0, b""], 2, ends)

    def test_cublas(self):
        self.check_library("libcublas.so.*", "cublasCreate_v2")

    def test_cudnn(self):
        self.check_library("libcudnn.so.9", "cudnnCreate")

    def test_cufft(self):
        self.check_library("libcufft.so.*", "cufftPlan1d", look_ups=0, by_name=60, at_least=5, third=0x29)  # CUFFT_C2C

    def test_cusparse(self):
        self.check_library("libcusparse.so.*", "cusparseCreate")

    def test_cusolver(self):
        self.check_library("libcusolver.so.*", "cusolverDnCreate")

    def test_static_runtime(self):
        found = [p for folder in ["/usr/local/cuda/lib64", *build.cuda_libraries()] for p in glob.glob(os.path.join(folder, "libcudart_static.a"))]
        if not found:
            self.skipTest("no libcudart_static.a")
        program = build.compile_(os.path.join(self.dir, "static"), "static_runtime.c", found[0], "-ldl", "-lrt", "-lpthread")
        needed = subprocess.run(["readelf", "-d", program], check=True, stdout=subprocess.PIPE, text=True).stdout
        self.assertNotIn("libcuda", needed)
        out = self.run_on_fake([program], [self.spy, PRELOAD])
        self.assertRegex(out, r"result \d+")
        seen, wrapped, _, _ = self.check_log()
        self.assertGreaterEqual(seen, 440)
        self.assertGreater(wrapped, 45)
        print("        static runtime: %d look-ups, %d wrapped" % (seen, wrapped), file=sys.stderr)

    def ask(self, questions, preloads):
        program = build.compile_(os.path.join(self.dir, "ask"), "ask.c", self.driver, "-ldl")
        out = self.run_on_fake([program], preloads, input="".join("%s %d %d\n" % q for q in questions))
        return [line.split()[1:] for line in out.splitlines() if line.startswith(("got", "dlsym"))]

    def test_every_hooked_name_at_every_version(self):
        """Each version that cudaTypedefs.h lists, the versions around it, both kinds of stream, both cuGetProcAddress."""
        questions = []
        latest = 99999  # a later version than memtrace's headers: the driver gives its newest interface
        for base, of in sorted(cuda_headers.versions(self.include).items()):
            for version in sorted({v + d for vs in of.values() for v in vs for d in (-10, 0, 10)} | {13000, latest}):
                questions += [(base, version, flags) for flags in (0, 1, 2)]
        answers = self.ask(questions, [PRELOAD])
        self.assertEqual(len(answers), len(questions))
        covered, wrong = set(), []
        for name, version, flags, result, status, new, result_old, old in answers:
            symbol = self.expected(name, int(version), int(flags))
            wanted = symbol in hooked() and new != "(nil)"
            if wanted:
                covered.add(symbol)
            for address in (new, old):
                if wanted != (symbol in self.symbols(address)) or (not wanted and self.symbols(address)):
                    wrong.append((name, version, flags, symbol, sorted(self.symbols(address))))
        self.assertEqual(wrong, [])
        driver = {n for n in hooked() if re.match(r"cu[A-Z]", n) and n in cuda_headers.declared(self.include)}
        self.assertEqual(sorted(driver - covered), [])
        self.assertGreater(len(covered), 60)
        print("        %d hooked driver names, %d questions" % (len(covered), 2 * len(questions)), file=sys.stderr)

    def test_every_hooked_name_by_dlsym(self):
        """Each name that is not hooked gives the driver's own function."""
        names = sorted(n for n in cuda_headers.declared(self.include) if re.match(r"cu[A-Z]", n))
        answers = self.ask([(n, 0, 0) for n in names], [PRELOAD])
        plain = {n: a for n, a in self.ask([(n, 0, 0) for n in names], [])}
        self.assertEqual(len(answers), len(names))
        wrong = [(n, a) for n, a in answers if (n in hooked()) != (n in self.symbols(a)) or self.is_memtrace(a) != (n in hooked())]
        self.assertEqual(wrong, [])
        self.assertEqual([n for n, a in plain.items() if a == "(nil)"], [])

    def test_answers_are_the_drivers(self):
        """Unknown names, names without a version, names that are not hooked: result, status and pointer as without memtrace."""
        questions = [("cuNothing", 12000, 0), ("cuNoMemAlloc", 13000, 2), ("cuMemAlloc_v2", 12000, 0), ("cuLaunchKernel", 12000, 0),
                     ("cublasCreate_v2", 12000, 0), ("cuMemAllocX", 12000, 0), ("cuMemAlloc", 1, 0), ("cuMemAlloc", 99999, 0)]
        def plain(answers):
            return [[a if i not in (5, 7) else a == "(nil)" for i, a in enumerate(answer)] for answer in answers]
        self.assertEqual(plain(self.ask(questions, [PRELOAD])), plain(self.ask(questions, [])))


if __name__ == "__main__":
    import unittest
    unittest.main()
