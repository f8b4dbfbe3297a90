"""What a job says of itself: import memtrace, NVTX ranges, the limits of pytest. The peaks are PyTorch's own counters."""
import functools
import json
import os
import re
import subprocess
import unittest

from harness import BUILD, JOBS, MEMTRACE, PRELOAD, ROOT, Case, MiB, python

MODULE = os.path.join(BUILD, "python")
JOB = os.path.join(JOBS, "named.py")

# Two tests keep their limit, one is above it by what an earlier one left, one by its own.
LIMITS = '''
import pytest, torch
kept = []

@pytest.mark.max_gpu_memory("300MiB")
def test_within():
    torch.empty(200 << 20, dtype=torch.uint8, device="cuda")

@pytest.mark.max_gpu_memory("10MiB")
def test_small():
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda")

@pytest.mark.max_gpu_memory("256MiB")
def test_above():
    with torch.no_grad():
        a = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
        b = torch.empty(100 << 20, dtype=torch.uint8, device="cuda")
        kept.append(b)

@pytest.mark.max_gpu_memory("50MiB")
def test_what_is_left_counts():
    torch.empty(1 << 20, dtype=torch.uint8, device="cuda")

def test_without_limit():
    torch.empty(400 << 20, dtype=torch.uint8, device="cuda")
'''

# 20 passes before one backward pass. At its peak 19 outputs of 2048 x 1024 floats are left, beside the gradient of one and that of the weight:
# 19 * 8 + 8 + 4 MiB. In between a request fails.
DIAGNOSED = '''
import pytest, torch

def graph():
    weight, total = torch.nn.Linear(1024, 1024, device="cuda"), 0
    for _ in range(20):
        total = total + weight(torch.randn(2048, 1024, device="cuda")).square().mean()
    total.backward()

@pytest.mark.max_gpu_memory("100MiB")
def test_graph():
    graph()

@pytest.mark.max_gpu_memory("100MiB")
def test_too_much():
    held = torch.empty(200 << 20, dtype=torch.uint8, device="cuda")
    with pytest.raises(RuntimeError):
        torch.empty(3 << 40, dtype=torch.uint8, device="cuda")

@pytest.mark.max_gpu_memory("100MiB")
def test_after():
    graph()
'''


@functools.lru_cache(None)
def packages():
    """The module, pytest and Jupyter's kernel, for PYTHONPATH."""
    made = subprocess.run([os.path.join(ROOT, "tests", "inside-env.sh")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    return MODULE + ":" + made


class Marks(Case):
    def named(self, where, version="2.15", **env):
        done = self.simulate([python(version), JOB, where], PYTHONPATH=MODULE, **env)
        return json.loads(done.stdout.splitlines()[-1]), self.report()["ranks"][0]

    def check_phases(self, said, rank):
        found = {tuple(row["path"]): row for row in rank["named_phases"]}
        for name, peak in said["peaks"].items():
            self.assertEqual(found[(name,)]["peak_bytes"], peak, name)
        self.assertEqual(found[("forward",)]["times"], 8)
        self.assertEqual((said["allocated"], said["reserved"]), (said["expected"], said["expected_reserved"]))
        self.assertEqual(said["peak"], said["expected_peak"])
        self.assertEqual(self.paths(), [said["trace"]])
        return found

    def test_phases_and_steps_that_the_job_names(self):
        said, rank = self.named("begin", MEMTRACE_NVTX=1)
        found = self.check_phases(said, rank)
        self.assertEqual(found[("outer", "my part")]["peak_bytes"], said["peaks"]["outer"])
        self.assertTrue(any(path[:2] == ("outer", "my part") and len(path) > 2 for path in found), list(found))  # an operator
        self.assertNotIn(("nobody hears this",), found)  # without emit_nvtx(), as the page says
        self.assertEqual([(row["step"], row["forwards"], row["backwards"]) for row in rank["steps"]],
                         [(1, 2, 2), (2, 2, 2), (3, 2, 2), (4, 2, 2)])
        self.assertEqual([row["name"] for row in rank["moments"]], ["model ready"])
        self.assertEqual(rank["peak"]["named_phase"][0], "outer")
        text = self.text()
        self.assertIn('in "outer', text)
        self.assertIn("phases ", text)
        forward = self.report("--phase", "forward")["ranks"][0]["peak"]
        self.assertEqual(forward["allocated_bytes"], said["peaks"]["forward"])
        self.assertEqual(sum(forward["by_category"].values()), forward["allocated_bytes"])
        self.assertIn("it named setup", self.run_([MEMTRACE, "report", "--phase", "none", self.traces], status=2).stderr)

    def test_steps_that_are_marked_at_their_end(self):
        _, rank = self.named("end")
        self.assertEqual([(row["step"], row["forwards"]) for row in rank["steps"]][:4], [(1, 2), (2, 2), (3, 2), (4, 2)])
        self.assertTrue(rank["steps_marked"])
        self.assertNotIn(["outer"], [row["path"] for row in rank["named_phases"]])  # MEMTRACE_NVTX is not set

    def test_nvtx_of_an_older_pytorch(self):
        """2.1 calls libnvToolsExt.so.1; 2.15 and 2.5 have a copy of NVTX each."""
        said, rank = self.named("never", "2.1", MEMTRACE_NVTX=1)
        self.check_phases(said, rank)
        self.assertFalse(rank["steps_marked"])

    def test_a_variable_that_is_set_is_left_alone(self):
        script = "import os; print(os.environ.get('NVTX_INJECTION64_PATH'))"
        for settings, expected in (({"MEMTRACE_NVTX": 1, "NVTX_INJECTION64_PATH": "/theirs.so"}, "/theirs.so"), ({"MEMTRACE_NVTX": 1}, PRELOAD),
                                   ({"MEMTRACE_NVTX": 1, "MEMTRACE_DISABLE": 1}, "None"), ({"MEMTRACE_NVTX": 0}, "None"), ({}, "None")):
            done = self.run_(["python3", "-c", script], LD_PRELOAD=PRELOAD, **settings)
            self.assertEqual(done.stdout.strip(), expected, settings)

    def test_without_the_recorder_nothing_happens(self):
        script = ("import memtrace\nwith memtrace.phase('x'):\n  memtrace.step(); memtrace.mark('y')\n"
                  "@memtrace.phase('z')\ndef f(n): return n\n"
                  "print(f(3), memtrace.levels(), memtrace.peak(), memtrace.trace(), memtrace.flush(), memtrace.recording())")
        done = self.run_(["python3", "-c", script], PYTHONPATH=MODULE)
        self.assertEqual(done.stdout, "3 None None None False False\n")

    def test_no_argument_ends_the_job(self):
        script = ("import memtrace\nclass Bad:\n  def __str__(self): raise ValueError\n"
                  "for name in (Bad(), 'x' * (1 << 20), '\\0', '\\ud800', '\u00e9' * 100, None, b'y'):\n"
                  "  memtrace.mark(name)\n  with memtrace.phase(name): pass\n"
                  "for device in (None, 'cuda:0', -1, 1 << 40, 1.5): assert memtrace.levels(device) is None\n"
                  "for limit in (0, -1, 1e300, float('inf'), float('nan')): assert memtrace.flush(limit) is False\n"
                  "one = memtrace.phase('z')\n@one\ndef f(n):\n  'its page'\n  return f(n - 1) if n else 0\n"
                  "print(f(3), f.__name__, f.__doc__, len(memtrace._bytes('\u00e9' * 100)))")
        for env in ({}, {"LD_PRELOAD": PRELOAD}, {"LD_PRELOAD": PRELOAD, "MEMTRACE_DISABLE": 1}):
            done = self.run_(["python3", "-c", script], PYTHONPATH=MODULE, **env)
            self.assertEqual(done.stdout, "0 f its page 118\n", env)

    def test_the_recorder_takes_as_much_of_a_name(self):
        with open(os.path.join(ROOT, "preload", "marks", "marks.h"), encoding="utf-8") as f:
            limit = re.search(r"#define MARK_NAME_BYTES (\d+)", f.read()).group(1)
        done = self.run_(["python3", "-c", "import memtrace; print(memtrace._NAME_BYTES)"], PYTHONPATH=MODULE)
        self.assertEqual(done.stdout.strip(), limit)

    def test_functions_that_do_not_end_at_their_return(self):
        script = ("import asyncio, memtrace\nnow = []\n"
                  "enter, leave = memtrace.phase.__enter__, memtrace.phase.__exit__\n"
                  "memtrace.phase.__enter__ = lambda p: (now.append('in ' + p.name), enter(p))[1]\n"
                  "memtrace.phase.__exit__ = lambda p, *why: (now.append('out'), leave(p, *why))[1]\n"
                  "@memtrace.phase('waits')\nasync def waits(n):\n  await asyncio.sleep(0); now.append(n); return n\n"
                  "@memtrace.phase('yields')\ndef yields(n):\n  got = yield n; now.append(got); yield n + 1\n"
                  "assert asyncio.run(waits(3)) == 3\n"
                  "g = yields(5); assert next(g) == 5 and g.send(7) == 6 and list(g) == []\n"
                  "@memtrace.phase('both')\nasync def both(n):\n  yield n; now.append(n)\n"
                  "async def all(): return [x async for x in both(9)]\n"
                  "assert asyncio.run(all()) == [9]\n"
                  "print(now)")
        done = self.run_(["python3", "-c", script], PYTHONPATH=MODULE)
        self.assertEqual(done.stdout, "['in waits', 3, 'out', 'in yields', 7, 'out', 'in both', 9, 'out']\n")

    def test_nvtx_is_not_taken_without_the_setting(self):
        """A child inherits NVTX_INJECTION64_PATH, and NVTX calls the library that it names."""
        script = ("import ctypes\ncalled = []\nasked = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_uint32)(lambda table: called.append(table))\n"
                  f"print(ctypes.CDLL({PRELOAD!r}).InitializeInjectionNvtx2(asked), called)")
        for env, expected in (({}, "0 []"), ({"MEMTRACE_NVTX": 1, "MEMTRACE_DISABLE": 1}, "0 []"), ({"MEMTRACE_NVTX": 1}, "0 [1]")):
            self.assertEqual(self.run_(["python3", "-c", script], LD_PRELOAD=PRELOAD, **env).stdout.strip(), expected)

    def test_limits_of_pytest(self):
        with open(os.path.join(self.dir, "test_limits.py"), "w", encoding="utf-8") as f:
            f.write(LIMITS)
        command = [python(), "-m", "pytest", "-q", "-p", "memtrace.pytest_plugin", "-p", "no:cacheprovider", "test_limits.py"]
        done = self.simulate(command, PYTHONPATH=packages(), status=1)
        self.assertIn("2 failed, 3 passed", done.stdout)
        self.assertIn("300.0 MiB of GPU memory on device 0, 44.0 MiB more than the 256.0 MiB", done.stdout)
        self.assertRegex(done.stdout, r"200\.0 MiB  1 block  \w+  .*test_above.*test_limits\.py:16")
        self.assertIn("101.0 MiB of GPU memory on device 0, 51.0 MiB more than the 50.0 MiB", done.stdout)
        ranks = self.report("--phase", "test_limits.py::test_above")["ranks"]
        self.assertEqual(ranks[0]["peak"]["allocated_bytes"], 300 * MiB)

    def test_the_diagnosis_in_pytest(self):
        """The message has what the report finds for the peak of that test, also after a request that failed in another one."""
        with open(os.path.join(self.dir, "test_limits.py"), "w", encoding="utf-8") as f:
            f.write(DIAGNOSED)
        command = [python(), "-m", "pytest", "-q", "-p", "memtrace.pytest_plugin", "-p", "no:cacheprovider", "test_limits.py"]
        done = self.simulate(command, PYTHONPATH=packages(), status=1)
        self.assertIn("3 failed", done.stdout)
        messages = re.split(r"(?m)^=+ short test summary", done.stdout)[0]  # under CI=1 the summary repeats them
        graph, too_much, after = re.split(r"(?m)^_+ (?:test_\w+) _+$", messages)[1:]
        for same in graph, after:
            self.assertRegex(same, r"(?m)^  room: ACT_PEAK, \w+ confidence: 164\.0 MiB \(45 %\) are activations of this step\n    try: .*checkpoint")
            self.assertNotIn("HUGE_TENSORS", same)
        self.assertRegex(too_much, r"(?m)^  cause: HUGE_TENSORS, \w+ confidence: 3\.0 TiB ")
        for name, failures in ("test_graph", []), ("test_too_much", [3 << 40]), ("test_after", []):
            rank, = self.report("--phase", "test_limits.py::" + name)["ranks"]
            self.assertEqual([one["requested_bytes"] for one in rank["oom"]], failures, name)
            self.assertEqual(rank["oom_count"], len(failures))

    def test_pytest_without_the_recorder(self):
        with open(os.path.join(self.dir, "test_limits.py"), "w", encoding="utf-8") as f:
            f.write("import pytest\n@pytest.mark.max_gpu_memory('1MiB')\ndef test_it(): pass\n")
        command = [python(), "-m", "pytest", "-q", "-p", "memtrace.pytest_plugin", "-p", "no:cacheprovider", "test_limits.py"]
        self.assertIn("was not checked in 1 tests", self.run_(command, PYTHONPATH=packages()).stdout)
        with open(os.path.join(self.dir, "test_limits.py"), "a", encoding="utf-8") as f:
            f.write("@pytest.mark.max_gpu_memory('much')\ndef test_bad(): pass\n")
        done = self.run_(command, PYTHONPATH=packages(), status=4)
        self.assertIn("'much' is not a size such as 4GiB", done.stdout + done.stderr)

    def test_an_old_pytest_loads_the_plugin(self):
        """Its entry point is loaded in every run of pytest: 6.2 has no StashKey, and hookimpl() of 7.2 no `wrapper`."""
        script = "import pytest; del pytest.StashKey, pytest.hookimpl; import memtrace.pytest_plugin"
        self.run_([python(), "-c", script], PYTHONPATH=packages())


NOTEBOOK = """
import json, nbformat, sys
from nbclient import NotebookClient
cells = ["import torch\\nx = torch.empty(10 << 20, dtype=torch.uint8, device='cuda')", "y = torch.empty(300 << 20, dtype=torch.uint8, device='cuda'); del y",
         "z = torch.empty(40 << 20, dtype=torch.uint8, device='cuda')\\nimport memtrace; memtrace.flush()"]
book = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source=text) for text in cells])
NotebookClient(book, kernel_name="memtrace", timeout=240).execute()
print(json.dumps([cell["execution_count"] for cell in book.cells]))
"""


class Notebook(Case):
    def install(self, *options, status=0):
        done = self.run_([MEMTRACE, "jupyter", *options], status=status, JUPYTER_DATA_DIR=os.path.join(self.dir, "jupyter"))
        return done.stdout + done.stderr

    def test_cells_are_told_apart(self):
        """A real kernel runs three cells; the peak is in the second one."""
        self.install("--install", "--python", python())
        done = self.simulate([python(), "-c", NOTEBOOK], PYTHONPATH=packages(), JUPYTER_DATA_DIR=os.path.join(self.dir, "jupyter"))
        self.assertEqual(json.loads(done.stdout.splitlines()[-1]), [1, 2, 3])
        rank = self.ended_report()["ranks"][0]
        self.assertEqual([(row["path"], row["peak_bytes"]) for row in rank["named_phases"]],
                         [(["cell [1]"], 10 * MiB), (["cell [2]"], 310 * MiB), (["cell [3]"], 50 * MiB)])
        self.assertIn('in "cell [2]"', self.text())
        self.assertEqual(self.report("--phase", "cell [3]")["ranks"][0]["peak"]["allocated_bytes"], 50 * MiB)

    def test_install_and_remove(self):
        spec = os.path.join(self.dir, "jupyter", "kernels", "gpu", "kernel.json")
        self.assertIn(spec, self.install("--install", "--name", "gpu"))
        self.install("--install", "--name", "gpu")
        with open(spec, encoding="utf-8") as f:
            self.assertEqual(json.load(f)["argv"][:4], [MEMTRACE, "run", "--", "python3"])
        self.install("--uninstall", "--name", "gpu")
        self.assertFalse(os.path.exists(os.path.dirname(spec)))
        self.assertIn("there is no kernel", self.install("--uninstall", "--name", "gpu", status=2))
        self.assertIn("letters, digits", self.install("--install", "--name", "../x", status=2))
        self.assertIn("exclude each other", self.install("--install", "--user", "--prefix", "/x", status=2))
        self.assertIn("needs --install", self.install(status=2))
        os.makedirs(os.path.dirname(spec))
        with open(spec, "w", encoding="utf-8") as f:
            f.write('{"argv": []}')  # somebody else's
        for option in "--install", "--uninstall":
            self.assertIn("is not a kernel of memtrace", self.install(option, "--name", "gpu", status=2))


if __name__ == "__main__":
    unittest.main()
