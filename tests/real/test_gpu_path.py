"""`make test-gpu` without a GPU: a simulated device with other settings takes the GPU's place, and nvidia-smi's answers are recorded ones."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from harness import BUILD, ROOT, Case, python

RUN = os.path.join(ROOT, "tests", "gpu", "run.py")
MiB = 1 << 20
# As the driver's tools print them: one file of answers for each machine, by the beginning of the arguments.
H100 = "0, GPU-5f1d7a52-1111-2222-3333-444455556666, NVIDIA H100 80GB HBM3, 00000000:0F:00.0, 535.183.01, 81559 MiB, %d MiB, 551 MiB, Enabled, Enabled, Disabled, Default, Disabled\n"
SECOND = H100.replace("0, GPU-5f1d7a52", "1, GPU-6a2b8c41").replace(":0F:", ":1F:")
MIG = ("0, GPU-1c2d3e4f-1111-2222-3333-444455556666, NVIDIA A100-SXM4-40GB, 00000000:07:00.0, 550.127.05, 40960 MiB, [Insufficient Permissions], "
       "[N/A], Enabled, Enabled, Enabled, Default, Disabled\n")
OLD = "0, GPU-0a0b0c0d-1111-2222-3333-444455556666, NVIDIA GeForce RTX 3090, 00000000:01:00.0, 470.82.01, 24268 MiB, 511 MiB, Disabled, [N/A], Default, Enabled\n"
BROKEN = "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.\n"


def smi(folder, script):
    """An nvidia-smi that is a shell script; returns the environment in which it is found."""
    path = os.path.join(folder, "nvidia-smi")
    with open(path, "w") as f:
        f.write("#!/bin/sh\n" + script)
    os.chmod(path, 0o755)
    return {**os.environ, "PATH": folder + ":" + os.environ["PATH"]}


def printing(text):
    return "cat <<'END'\n%sEND\n" % text


class Imported(unittest.TestCase):
    """With the modules of tests/gpu, whose names are ordinary words, only while a test of it runs."""

    def setUp(self):
        self.dir = tempfile.mkdtemp(prefix="memtrace-test-")
        self.addCleanup(shutil.rmtree, self.dir, True)
        folder = os.path.join(ROOT, "tests", "gpu")
        for patch in (mock.patch.object(sys, "path", [folder, *sys.path]), mock.patch.dict(sys.modules)):
            patch.start()
            self.addCleanup(patch.stop)
        for name in os.listdir(folder):  # another folder's module may have the name
            sys.modules.pop(name[:-3], None)

    def path_of(self, environment):
        return mock.patch.dict(os.environ, {"PATH": environment["PATH"], "TEST_GPU_NVML": "/no/nvml"})


class Answers(Imported):
    """Each kind of machine that a first run may meet."""

    def devices(self, script):
        import smi as module
        with self.path_of(smi(self.dir, script)):
            return module.devices()

    def machine(self, script):
        from machine import Machine
        with self.path_of(smi(self.dir, script)):
            machine = Machine(ROOT, None)
            return machine, machine.choose()

    def test_two_gpus_the_idler_is_taken(self):
        machine, visible = self.machine(printing(H100 % 40000 + SECOND % 4))
        self.assertEqual(visible, "1")
        with self.path_of({"PATH": self.dir + ":" + os.environ["PATH"]}):
            machine.found({"bus_id": "0000:1F:00.0", "uuid": None})
            self.assertEqual((machine.index, machine.used()), (1, 4 * MiB))
        self.assertEqual(machine.by_smi[0]["memory"], {"total": 81559 * MiB, "used": 40000 * MiB, "reserved": 551 * MiB})

    def test_the_callers_choice_stays(self):
        with mock.patch.dict(os.environ, {"CUDA_VISIBLE_DEVICES": "0"}):
            self.assertIsNone(self.machine(printing(H100 % 40000 + SECOND % 4))[1])

    def test_mig_has_no_figures_of_its_own(self):
        machine, visible = self.machine(printing(MIG))
        machine.found({"bus_id": "0000:07:00.0", "uuid": None})
        self.assertEqual((visible, machine.sliced, machine.index, machine.used()), (None, True, 0, None))
        self.assertIsNone(machine.by_smi[0]["memory"]["used"])

    def test_a_version_that_lacks_fields(self):
        script = ('case $1 in *memory.reserved*) echo \'Field "memory.reserved" is not a valid field to query.\'; exit 2;; '
                  '*mig.mode*) echo \'Field "mig.mode.current" is not a valid field to query.\'; exit 2;; esac\n')
        (device,), why = self.devices(script + printing(OLD))
        self.assertEqual((device["memory"], device["mig"], device["ecc"], device["display"]),
                         ({"total": 24268 * MiB, "used": 511 * MiB, "reserved": None}, None, None, "Enabled"))
        self.assertIsNone(why)

    def test_no_answer(self):
        for script, said in (("echo 'No devices were found'; exit 6\n", "No devices were found"), (printing(BROKEN) + "exit 9\n", "couldn't communicate"),
                             ("exit 12\n", "status 12"), ("echo garbage\n", "lists no GPU")):
            with self.subTest(said):
                devices, why = self.devices(script)
                self.assertEqual(devices, [])
                self.assertIn(said, why)

    def test_simulated_driver(self):
        import cards
        text = 'SETTING(CHOICE, driver, "CUDASIM_DRIVER", "auto|525|535|550|580", 0, 4, "x")'
        for version, choice in (("535.183.01", "535"), ("580.159.03", "580"), ("570.86.10", "550"), ("470.82.01", None), ("610.1", "580"), (None, None)):
            self.assertEqual(cards.driver(text, version), choice)
        self.assertIsNone(cards.driver("", "535.183.01"))

    def test_simulated_card(self):
        import cards
        for name, capability, total, count, card, same in (
                ("NVIDIA H200", [9, 0], 150109093888, 132, "H200", True), ("NVIDIA H100 80GB HBM3", [9, 0], 84943699968, 132, "H100-80GB", True),
                ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", [8, 0], 5100273664, 14, "A100-40GB", False),
                ("NVIDIA GeForce RTX 4080", [8, 9], 16765943808, 76, "L4", False), ("NVIDIA GeForce RTX 5090", [12, 0], 33661911040, 170, "GB200", False)):
            with self.subTest(name):
                found = cards.choose(ROOT, name, capability, total, count)
                self.assertEqual(found[:2], (card, same))
                self.assertIn(card, found[2])


class Steps(Imported):
    """No step stops another: what a run leaves behind is kept, whatever became of it."""

    def run_step(self, script, limit=5):
        """A step whose Python is a shell script."""
        import runner
        import steps
        from tracefile import Stacks
        path = os.path.join(self.dir, "python")
        with open(path, "w") as f:
            f.write("#!/bin/sh\n" + script)
        os.chmod(path, 0o755)
        ways = runner.Ways({}, path, {})
        return runner.run(ways, runner.PLAIN, steps.own("x", "context.py"), os.path.join(self.dir, "run"), limit, Stacks())

    def test_a_crash_keeps_the_marks(self):
        found = self.run_step("""echo '{"name": "context", "text": null}' >$TEST_GPU_MARKS; echo '{"na' >>$TEST_GPU_MARKS; echo gone >&2; kill -SEGV $$\n""")
        self.assertEqual((found["status"], found["why"], found["truth"]), ("failed", "killed by signal 11: gone", None))
        self.assertEqual([m["name"] for m in found["marks"]], ["context"])

    def test_a_hang_is_ended_with_its_children(self):
        found = self.run_step("sleep 300 & echo $! >pid; wait\n", limit=0.5)
        self.assertEqual(found["status"], "timeout")
        with open(os.path.join(self.dir, "run", "pid")) as f:
            child = "/proc/%s/cmdline" % f.read().strip()
        for _ in range(100):  # the signal needs a moment on a loaded machine
            if not os.path.exists(child) or not self.text_of(child):
                return
            time.sleep(0.1)
        self.fail("the child lives")

    def text_of(self, path):
        """Empty for a process that has ended and that init has not asked for its status."""
        try:
            with open(path) as f:
                return f.read()
        except OSError:
            return ""

    def test_programs_that_are_missing(self):
        import builds
        compiler = os.path.join(self.dir, "gcc")
        shutil.copy(shutil.which("false"), compiler)
        with mock.patch.dict(os.environ, {"PATH": self.dir}):
            lacks, cuda = builds.missing(compiler, None)
        self.assertIsNone(cuda)
        self.assertEqual([x.split()[0] for x in lacks], ["make", "the", "jansson.h", "yaml.h", "uthash.h"])
        os.makedirs(os.path.join(self.dir, "build"))
        self.assertEqual(builds.parts(os.path.join(self.dir, "build")), {})

    def test_a_page_of_what_there_is(self):
        import page
        machine = {"nvml": [], "smi": [], "nvml_versions": {"driver": None, "driver_cuda": None}, "index": None}
        run = {"status": "failed", "why": "no CUDA | here", "truth": None, "marks": []}
        text = page.write({"python": {"name": "NVIDIA H200", "total": 1, "capability": [9, 0], "multiprocessors": 132, "torch": "2", "cuda": "13", "python": "3"},
                           "steps": {"gpt": {"kind": "job", "recorded": run, "simulated": {"status": "timeout", "why": "took longer than 90 s"}}},
                           "stacks": [], "not_run": [["building", "missing: jansson.h"]], "machine": machine, "complete": False, "simulated_as": "H200",
                           "build": {"how": "as it came"}})
        for said in ("No job ran on both", "| gpt, GPU | no CUDA / here |", "| gpt, simulated | took longer than 90 s |", "missing: jansson.h", "not complete"):
            self.assertIn(said, text)

    def test_other_blocks_are_named(self):
        import compare
        found = compare.blocks([[2, 100, "a", ""], [1, 8, "b", ""], [1, 5, "c", ""]], [[1, 100, "a", ""], [1, 32, "b", ""], [1, 5, "d", ""]])
        self.assertEqual(found["rows"], [{"where": "a", "real": [[1, 100]], "simulated": [], "difference": -100},
                                         {"where": "b", "real": [[1, 8]], "simulated": [[1, 32]], "difference": 24}])
        self.assertEqual(found["moved"], [1, 5])


# A driver that says that it was loaded: with a simulated device in the process nobody may touch it.
DECOY = '#include <stdio.h>\n__attribute__((constructor)) static void loaded(void) { fclose(fopen("%s", "w")); }\nint cuInit(int f) { return 999; }\n'
JOB, PROBE = "GPT-2, eager, fp16", "cuBLAS"


class WholeRun(Case):
    def decoy(self):
        folder, touched = os.path.join(self.dir, "driver"), os.path.join(self.dir, "touched")
        os.mkdir(folder)
        for name in ("libcuda.so.1", "libnvidia-ml.so.1"):
            subprocess.run(["gcc", "-shared", "-fPIC", "-x", "c", "-", "-Wl,-soname," + name, "-o", os.path.join(folder, name)],
                           input=DECOY % touched, text=True, check=True)
        return folder, touched

    def test_against_another_gpu(self):
        """An A100 in the GPU's place, an H100 simulated: gpus.def and PyTorch's rule for cuBLAS say what must differ."""
        folder, touched = self.decoy()
        out = os.path.join(self.dir, "out")
        tools = os.path.join(self.dir, "tools")
        os.mkdir(tools)
        path = smi(tools, printing(H100.replace("NVIDIA H100 80GB HBM3", "NVIDIA A100-SXM4-80GB") % 4))["PATH"]
        done = self.run_([sys.executable, RUN, "--stand-in", "CUDASIM_GPU=A100-80GB", "--gpu", "H100-80GB", "--python", python(), "--build", BUILD, "--small",
                          "--no-cost", "--only", JOB, "--only", PROBE, "--out", out, "--limit", "300"], LD_LIBRARY_PATH=folder, PATH=path,
                         TEST_GPU_NVML="/no/nvml")
        self.assertFalse(os.path.exists(touched))
        self.assertRegex(done.stdout, r"\d+ passed, 0 failed, 0 skipped")
        with open(os.path.join(out, "A100-SXM4-80GB.json")) as f:
            results = json.load(f)
        self.check_job(results["steps"][JOB])
        self.check_probe(results["steps"][PROBE]["compare"])
        with open(os.path.join(out, "A100-SXM4-80GB.md")) as f:
            self.check_page(f.read())

    def check_job(self, step):
        self.assertEqual([c[0] for c in step["recorded"]["checks"]], ["allocated", "reserved", "allocs", "frees", "live blocks", "lost events",
                                                                                "report: allocated", "report: reserved", "report: device, 1 %"])
        self.assertTrue(all(c[3] for c in step["recorded"]["checks"]))
        # The context: context.def, 614 MiB of an H100, as nvidia-smi said of other ranks' contexts, and 507 of an A100 by its threads.
        context = step["compare"]["owners"][-1]
        self.assertEqual(context[1:], [(507 - 4) * MiB, 614 * MiB])  # nvidia-smi's 4 MiB were in use before
        allocated, device = step["compare"]["totals"]["allocated"], step["compare"]["totals"]["device"]
        self.assertEqual(allocated[1] - allocated[0], sum(r["difference"] for r in step["compare"]["allocated"]["rows"]))
        self.assertEqual(device[1] - device[0], sum(b - a for _, a, b in step["compare"]["owners"]))

    def check_probe(self, compared):
        """A workspace of cuBLAS is 32 MiB on compute capability 9.0, and 8 MiB + 128 KiB before."""
        smaller, larger = 8 * MiB + 128 * 1024, 32 * MiB
        rows = compared["allocated"]["rows"]
        self.assertEqual([(r["real"], r["simulated"]) for r in rows], [([[1, smaller]], [[1, larger]])])
        marks = compared["marks"]
        self.assertEqual(marks[0]["name"], "context")
        self.assertEqual({b - a for a, b in (m["peak"] for m in marks)} - {0}, {larger - smaller})
        self.assertGreater(len(marks), 20)

    def check_page(self, text):
        self.assertIn("# memtrace on NVIDIA A100-SXM4-80GB", text)
        self.assertIn("The recorder agrees with PyTorch's own counters in 18 of 18 comparisons", text)
        self.assertIn("| context, kernels and libraries (no call shows it) |", text)
        self.assertRegex(text, r"\| driver \| 535\.183\.01 \|")

    @unittest.skipIf(os.path.exists("/dev/nvidiactl"), "there is a GPU: make test-gpu")
    def test_says_that_it_was_skipped(self):
        done = self.run_([sys.executable, RUN])
        self.assertIn("test-gpu: skipped, there is no GPU here", done.stdout)
        self.assertRegex(done.stdout, r"0 passed, 0 failed, \d+ skipped")


if __name__ == "__main__":
    unittest.main()
