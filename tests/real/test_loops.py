"""Training loops of many shapes, against the marks that they make themselves: the step and the phase of each allocation, the number of steps, and the
bytes of each category at the peak.

test_loops.py --table [VERSION [DIRECTORY]] prints a row for each loop; DIRECTORY keeps the traces, and existing ones are used again."""
import bisect
import json
import os
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from harness import JOBS, MEMTRACE, environment, python  # noqa: E402
import categories  # noqa: E402

SCRIPT = os.path.join(JOBS, "loops.py")
STACK_MIN = 64 << 10  # smaller blocks have no stack
SAMPLE = ("zero_in_place_dies", "gan_twice", "gan_of_the_tutorial", "actor_critic", "losses_summed_dies", "reference_before", "lbfgs", "retried",
          "momentum_encoder")

# Loops whose categories at the peak differ. No category has the copies of weights that autocast keeps. A backward pass may make a graph (a gradient
# penalty). What a failed forward pass had not saved yet, and what is saved and kept by the job too (WGAN's images), is told by no event.
# Parameters that no module has look like inputs. An optimizer's own function other than step() looks like the job's code.
OTHER_CATEGORIES = ("autocast", "gradient_penalty", "retried", "wgan_of_five", "functions_only", "sharpness_aware")
# With 2.5, a gradient that a hook forgets is freed without a stack.
OTHER_IN_25 = ("in_backward", "gan_of_the_tutorial", "truncated", "amp_accumulated")
OTHER_PHASES = ("sharpness_aware",)


def run(directory, names, version="2.15"):
    """Runs the loops, each in a process of its own; a trace each."""
    done = subprocess.run([MEMTRACE, "simulate", "-o", os.path.join(directory, "traces"), "--", python(version), SCRIPT,
                           os.path.join(directory, "out"), *names], env=environment(MEMTRACE_QUIET=1, OMP_NUM_THREADS=1),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600)
    if done.returncode or "failed" in done.stdout:
        raise RuntimeError(done.stdout[-3000:])


def kept_results(blocks, written):
    """Blocks that a backward pass had saved and used before the peak, and that the job still refers to after it: no activations any more"""
    ends = sorted(mark["allocations"] for mark in written["marks"] if mark["kind"] == "backward end")
    for address, allocations in written["used"]:
        block, end = blocks.find(address, allocations), bisect.bisect_left(ends, allocations)
        last = blocks.position[ends[end] - 1] if end < len(ends) else categories.GONE
        if block is not None and blocks.death[block] > last and blocks.position[allocations - 1] < blocks.peak:
            yield block


def category_errors(entry, blocks, written):
    """[(category, said, true)] if they differ by more than 1 % of the category and 0.1 % of the peak"""
    said, known = entry["peak"]["by_category"], dict.fromkeys(kept_results(blocks, written), "temporaries")
    for address, allocations in written["inputs"]:
        known[blocks.find(address, allocations)] = "inputs"
    for block, category in categories.truth(blocks, written).items():
        known[block] = category if category != "activations" else known.get(block, category)
    true, found = categories.sums(blocks, known), []
    for category in categories.TENSORS + ("activations",):
        there = true.get(category, 0)
        if abs(said[category] - there) > max(there / 100, blocks.highest / 1000):
            found.append((category, said[category], there))
    return found


class Loop:
    """What the report says of a loop, beside what the loop itself wrote."""

    def __init__(self, directory, name):
        with open(os.path.join(directory, "out." + name)) as f:
            self.written = written = json.load(f)
        traces = os.path.join(directory, "traces")
        path, = [os.path.join(traces, p) for p in os.listdir(traces) if "-%d-" % written["pid"] in p]
        report = subprocess.run([MEMTRACE, "report", "--json", path], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.entry = entry = json.loads(report.stdout)["ranks"][0]
        self.blocks = blocks = categories.Blocks(categories.mtr.Trace(path), 0)
        self.steps = len({step for _, step, phase in written["loop"] if phase in ("forward", "backward", "optimizer")})
        self.steps_said = entry["steps"][-1]["step"] if entry["steps"] else 0
        starts = [s[0] for s in entry["phase_starts"]]
        marks = [n[0] for n in written["loop"]]
        self.wrong_step, self.wrong_phase, self.compared, self.first = 0, 0, 0, None
        for block in range(marks[0] if marks else 0, len(blocks.birth)):
            _, step, phase = written["loop"][bisect.bisect(marks, block) - 1]
            if phase is None or blocks.size(block) < STACK_MIN:
                continue
            said = entry["phase_starts"][bisect.bisect(starts, blocks.events[blocks.birth[block]][0] / 1e9) - 1]
            self.compared += 1
            self.wrong_step += said[1] != step
            self.wrong_phase += said[2] != phase
            if not self.first and (said[1] != step or said[2] != phase):
                self.first = "block %d of %.1f MiB: said %d %s, is %d %s" % (block, blocks.size(block) / 2**20, *said[1:3], step, phase)
        self.categories = category_errors(entry, blocks, written)

    def row(self, name):
        share = ["%.1f %%" % (100 * (self.compared - wrong) / max(self.compared, 1)) for wrong in (self.wrong_phase, self.wrong_step)]
        off = ", ".join("%s %.1f for %.1f" % (c, s / 2**20, t / 2**20) for c, s, t in self.categories)
        return "| %s | %s | %s | %d of %d | %s |" % (name, *share, self.steps_said, self.steps, off or "right")


class Loops(unittest.TestCase):
    version, names = "2.15", SAMPLE

    def test_loops(self):
        with tempfile.TemporaryDirectory(prefix="memtrace-test-") as directory:
            run(directory, self.names, self.version)
            for name in self.names or loops():
                with self.subTest(loop=name):
                    seen = Loop(directory, name)
                    self.assertEqual(seen.wrong_step, 0, seen.first)
                    if name not in OTHER_PHASES:
                        self.assertEqual(seen.wrong_phase, 0, seen.first)
                    self.assertEqual(seen.steps_said, seen.steps)
                    if name not in OTHER_CATEGORIES + (OTHER_IN_25 if self.version == "2.5" else ()):
                        self.assertEqual(seen.categories, [])


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class EveryLoop(Loops):
    names = ()


@unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
class EveryLoopOf25(EveryLoop):
    version = "2.5"


def loops():
    found = []
    for script in ("loops_single.py", "loops_several.py", "loops_others.py"):
        with open(os.path.join(JOBS, script)) as f:
            lines = f.read().split("\n")
        found += [after[4:after.index("(")] for line, after in zip(lines, lines[1:]) if line == "@loop"]
    return found


def table(version="2.15", directory=None):
    directory = directory or tempfile.mkdtemp(prefix="memtrace-loops-")
    missing = [name for name in loops() if not os.path.exists(os.path.join(directory, "out." + name))]
    if missing:
        run(directory, missing, version)
    print("| loop | blocks in the right phase | in the right step | steps | categories at the peak (MiB) |\n|---|---|---|---|---|")
    right = [0, 0, 0]
    for name in loops():
        seen = Loop(directory, name)
        print(seen.row(name), seen.first if os.environ.get("VERBOSE") and seen.first else "")
        right = [n + good for n, good in zip(right, (not seen.wrong_phase, not seen.wrong_step and seen.steps == seen.steps_said,
                                                     not seen.categories))]
    print("\n%d loops: phases right in %d, steps in %d, categories in %d" % (len(loops()), *right))


if __name__ == "__main__":
    if sys.argv[1:2] == ["--table"]:
        table(*sys.argv[2:])
    else:
        unittest.main()
