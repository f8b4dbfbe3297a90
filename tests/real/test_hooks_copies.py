"""Two copies of a library, libraries that are unloaded, children, jumps: each call reaches the same function as without memtrace, and is recorded."""
import os
import re
import subprocess

from harness import PRELOAD, SIM, environment, mtr
from hooks import build
from test_hooks_device import Programs


class Copies(Programs):
    def setUp(self):
        super().setUp()
        self.plugins = []
        for n, name in ((1, "libcudart.so.12"), (2, "libcudart.so.13")):
            runtime = build.library(os.path.join(self.dir, name), "copies.c", "-DCOPY=%d" % n, "-fvisibility=default", "-Wl,-soname," + name)
            self.plugins.append(build.library(os.path.join(self.dir, "plugin%d.so" % n), "copies.c", "-DPLUGIN=%d" % n,
                                              "-fvisibility=default", runtime, "-Wl,-rpath," + self.dir, "-ldl"))
        self.copies = build.compile_(os.path.join(self.dir, "program"), "copies.c", "-O0", "-ldl")

    def scenario(self, name, plugins=2, **keys):
        return self.run_program(self.copies, name, *self.plugins[:plugins], preloads=[PRELOAD], **keys)

    def test_each_caller_has_its_own(self):
        """Two runtimes: each plugin's calls go to its own runtime, and all are recorded; memtrace's own calls go there too."""
        trace, events = self.check(self.scenario("two"))
        self.assertEqual([os.path.basename(trace.module(e[4])) for e in events[:3]], ["plugin1.so", "plugin2.so", "plugin1.so"])

    def test_two_nccls(self):
        """memtrace asks the NCCL that created a communicator, and inside a group only after the group's end."""
        self.scenario("nccl")
        trace = self.trace()
        said = [re.match(r"size=(\d+) rank=(\d+) parent=(\S+)", v if isinstance(v, str) else v.decode()).groups()
                for k, v in trace.meta.items() if k.startswith("comm:")]
        self.assertEqual(sorted((int(s), int(r), p != "-") for s, r, p in said),
                         sorted([(8, 5, False), (4, 2, True), (2, 1, True), (16, 5, False), (8, 2, True), (4, 1, True)]))
        kinds = [mtr.KINDS[r[5]] for r in trace.records()]
        self.assertEqual((kinds.count("COMM_INIT"), kinds.count("COMM_DESTROY")), (6, 6))

    def test_unloaded_and_loaded_elsewhere(self):
        self.check(self.scenario("reload"))

    def test_child_without_handlers(self):
        """_Fork() runs no fork handlers: the child has the recorder's state, and ends nevertheless."""
        self.check(self.scenario("fork", 1))

    def test_left_by_a_jump(self):
        self.check(self.scenario("jump", 1))

    def test_disabled_asks_nothing(self):
        self.scenario("disabled", 1, MEMTRACE_DISABLE=1)
        self.assertEqual(self.paths(), [])

    def test_not_in_scope(self):
        """A runtime loaded RTLD_LOCAL is found by callers that have it in scope, and by no others; dlerror() gives the same message."""
        plain = self.run_program(self.copies, "scope", self.plugins[0], preloads=[])
        self.assertIn("plugin found", plain)
        self.assertIn("default not found", plain)
        self.assertEqual(self.scenario("scope", 1), plain)


class Ends(Programs):
    """Memory that ends with a context or a pool, over tests/hooks/fake_device.c."""

    def setUp(self):
        super().setUp()
        self.between = (build.fake_device(self.dir),)

    def family(self, name, **keys):
        self.check(self.run_program(self.program("ends"), name, **keys))

    def test_host_memory_of_a_context(self):
        self.family("contexts")

    def test_host_memory_of_a_reset_device(self):
        self.family("reset_host")

    def test_imported_memory_of_a_reset_device(self):
        self.family("reset_ipc")

    def test_allocated_during_a_reset(self):
        self.family("reset_meanwhile")

    def test_pool_of_another_device(self):
        self.family("other_device", CUDASIM_GPUS=2)

    def test_pool_with_the_handle_of_another(self):
        self.family("pool_again")

    def test_unmap_past_what_was_not_seen(self):
        self.family("unmap_unseen")

    def test_size_asked_only_after_success(self):
        self.family("refused")


class Order(Programs):
    def test_another_tracer_before_and_behind(self):
        """The other tracer and memtrace both see each call once."""
        shim = build.library(os.path.join(self.dir, "shim.so"), "shim.c", "-ldl")
        program, seen = self.program("families"), []
        for name, preloads in (("before", [shim, PRELOAD, SIM]), ("behind", [PRELOAD, shim, SIM]), ("alone", [shim, SIM]), ("last", [PRELOAD, SIM, shim])):
            self.traces = os.path.join(self.dir, name)
            out = self.run_program(program, "linear", "link", preloads=preloads)
            seen.append(re.search(r"^shim (\d+) (\d+)$", out, re.M).groups())
            if PRELOAD in preloads:
                self.check(out)
        self.assertGreater(int(seen[2][0]), 0)
        self.assertEqual(seen, [seen[2]] * 3 + [("0", "0")])

    def test_simulated_device_first(self):
        """LD_PRELOAD in the wrong order: nothing can be recorded, and one line says so."""
        program = self.program("families")
        env = environment(LD_PRELOAD=SIM + " " + PRELOAD, MEMTRACE_DIR=self.traces)
        done = subprocess.run([program, "linear", "link"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual(done.returncode, 0)
        self.assertRegex(done.stderr, r"^memtrace: .*libcudasim\.so stands before libmemtrace\.so.*\n$")
        quiet = subprocess.run(["true"], env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=60)
        self.assertEqual((quiet.returncode, quiet.stderr), (0, ""))


if __name__ == "__main__":
    import unittest
    unittest.main()
