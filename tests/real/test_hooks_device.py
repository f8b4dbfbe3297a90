"""Each family of entry points, on the simulated device: every allocation is recorded once, with its size, device and owner.

The programs (tests/hooks/*.c) print the expected trace, which is written by hand beside each call.
"""
import os
import re
import subprocess

from harness import BUILD, PRELOAD, SIM, Case, environment, mtr
from hooks import build

ASIDE = {"TENSOR_ALLOC", "TENSOR_FREE", "RESERVED", "DEVICE_SAMPLE", "POOL_RESERVED", "GRAPH_RESERVED"}
LEVELS = {"POOL_RESERVED", "GRAPH_RESERVED"}
MAIN = "main program"
LOST_BUSY, LOST_LIMIT, LOST_NO_MEMORY = 6, 7, 8  # enum mt_lost
ROUTES = ("link", "dlsym", "gpa", "gpa_11", "entry", "entry_by_version")


class Programs(Case):
    between = ()  # preloads between memtrace and the simulated device

    def program(self, name, *options):
        path = os.path.join(self.dir, name)
        return build.compile_(path, name + ".c", *options, *self.between, SIM, "-Wl,-rpath," + os.path.join(BUILD, "cudasim"), "-ldl", "-lpthread")

    def run_program(self, *command, preloads=None, **settings):
        preloads = preloads if preloads is not None else [PRELOAD, *self.between, SIM]
        env = environment(LD_PRELOAD=" ".join(preloads), MEMTRACE_DIR=self.traces, MEMTRACE_STACK_MIN=0, MEMTRACE_QUIET=1, **settings)
        done = subprocess.run(list(map(str, command)), env=env, cwd=self.dir, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                              timeout=300)
        self.assertEqual((done.returncode, done.stderr), (0, ""), done.stdout)
        return done.stdout

    def expected(self, out):
        """[(kind, address or None, bytes, device or None)], with the levels"""
        found = re.findall(r"^event (\S+) (\S+) (\S+) (\S+)$", out, re.M)
        return [(k, None if a == "-" else int(a), int(n), 255 if d == "-1" else int(d)) for k, a, n, d in found]

    def check(self, out):
        """The trace has these events in this order and no others; its levels pass through the named values."""
        expected, trace = self.expected(out), self.trace()
        records = [(mtr.KINDS[k], a, n, d, p) for _, a, n, p, _, k, d in trace.records()]
        events = [r for r in records if r[0] not in ASIDE]
        wanted = [e for e in expected if e[0] not in LEVELS]
        seen = [(k, None if w and w[1] is None else a, n, d) for (k, a, n, d, _), w in
                zip(events, wanted + [None] * len(events))]
        self.assertEqual(seen, wanted)
        self.check_levels(expected, records)
        return trace, events

    def check_levels(self, expected, records):
        """Each level that the program prints between two events is in the trace between these events."""
        now, gaps = {}, [{}]  # kind: its values in the gap, first the value at its start
        for kind, _, n, _, _ in records:
            if kind in LEVELS:
                now[kind] = n
                gaps[-1].setdefault(kind, []).append(n)
            elif kind not in ASIDE:
                gaps.append({k: [v] for k, v in now.items()})
        at = 0
        for kind, _, n, _ in expected:
            if kind not in LEVELS:
                at += 1
                continue
            around = [v for gap in gaps[max(at - 1, 0):at + 1] for v in gap.get(kind, [])]
            self.assertIn(n, around, "%s after %d events; the trace has %s" % (kind, at, around))


class Families(Programs):
    def family(self, name):
        program = self.program("families")
        for way in ROUTES:
            with self.subTest(way=way):
                self.traces = os.path.join(self.dir, way)
                trace, events = self.check(self.run_program(program, name, way))
                # the caller is the owner, however it found the function
                self.assertEqual({trace.module(e[4]) for e in events}, {MAIN})

    def test_linear(self):
        self.family("linear")

    def test_pitch(self):
        self.family("pitch")

    def test_managed(self):
        self.family("managed")

    def test_host(self):
        self.family("host")

    def test_host_register(self):
        self.family("host_register")

    def test_async(self):
        self.family("async")

    def test_pools(self):
        self.family("pools")

    def test_vmm(self):
        self.family("vmm")

    def test_vmm_references(self):
        self.family("vmm_references")

    def test_vmm_host(self):
        self.family("vmm_host")

    def test_capture(self):
        self.family("capture")

    def test_reset(self):
        self.family("reset")


class Owners(Programs):
    def test_owners(self):
        """Two libraries and the program: the owner of each event is the calling module, for every way of calling."""
        names = ["libnccl.so.2", "libcublasLt.so.13"]
        libraries = [build.library(os.path.join(self.dir, n), "owner.c", SIM, "-ldl") for n in names]
        program = self.program("owners")
        trace, events = self.check(self.run_program(program, *libraries))
        who = [os.path.basename(trace.module(e[4]) or "?") for e in events]
        self.assertEqual(who, [MAIN] + [n for n in names for _ in range(3)] + [MAIN])

    def test_free_counts_for_the_owner_of_the_allocation(self):
        library = build.library(os.path.join(self.dir, "libnccl.so.2"), "owner.c", SIM, "-ldl")
        self.run_program(self.program("owners"), library)
        entry = self.report()["ranks"][0]
        self.assertEqual(entry["peak"]["by_owner"]["nccl"], 7 << 20)
        self.assertEqual(sum(entry["peak"]["by_owner"].values()), entry["peak"]["device_bytes"])


class Communicators(Programs):
    def test_use(self):
        """Memory that NCCL takes while one communicator is used belongs to that communicator; in a group of two it belongs to neither."""
        nccl = build.library(os.path.join(self.dir, "libnccl.so.2"), "nccl_use.c", "-DLIBRARY", "-fvisibility=default", SIM, "-lpthread")
        program = self.program("nccl_use", nccl, "-Wl,-rpath," + self.dir)
        told = [int(mib) << 20 for mib in re.findall(r"\d+", self.run_program(program, preloads=[PRELOAD, nccl, SIM]))]
        entry = self.report()["ranks"][0]
        self.assertEqual([(c["size"], c["bytes"], c["used_bytes"]) for c in entry["communicators"]], [(2, told[0], told[0]), (3, told[1], told[1]), (5, told[2], 0)])
        self.assertEqual(entry["peak"]["by_owner"]["nccl"], told[3])


    def comms(self, *options):
        nccl = build.library(os.path.join(self.dir, "libnccl.so.2"), "nccl_comms.c", "-DLIBRARY", "-fvisibility=default", *options, SIM,
                             "-lpthread")
        program = self.program("nccl_comms", nccl, "-Wl,-rpath," + self.dir)
        return lambda *words: self.run_program(program, *words, preloads=[PRELOAD, nccl, SIM])

    def check_comms(self, told, beside):
        entry = self.report()["ranks"][0]
        a, shrunk, grown, joined = entry["communicators"]
        self.assertEqual([c["size"] for c in (a, shrunk, grown, joined)], [4, 3, 5, 6])
        self.assertEqual([c["rank"] for c in (a, shrunk, grown, joined)], [1, 1, 1, 5])
        self.assertEqual([c["parent"] for c in (a, shrunk, grown, joined)], [None, a["id"], shrunk["id"], None])
        told = [int(mib) << 20 for mib in told.split()]
        self.assertEqual([c["bytes"] for c in (a, shrunk, grown)], told[:3])
        self.assertEqual(joined["bytes"], told[3] + beside)
        self.assertEqual([c["bytes"] - c["used_bytes"] for c in (a, shrunk, grown, joined)], [2 << 20, 2 << 20, 4 << 20, 0])

    def test_made_of_others_and_changed(self):
        """Shrunk, grown, suspended, resumed, registered with: the memory is inferred from NCCL's allocations on the device."""
        self.check_comms(self.comms()(), 7 << 20)

    def test_nccl_is_asked(self):
        """NCCL reports the memory of each communicator: memory that it took for none of them is not attributed to them."""
        self.check_comms(self.comms("-DSTATS")(), 0)

    def test_buffers(self):
        """ncclMemAlloc and ncclMemFree, where NCCL takes the memory without a call that is seen: once each; one that does not fit is a failure."""
        self.check(self.run_program(self.program("nccl_buffers")))

    def test_more_than_are_remembered(self):
        self.comms()("many")
        trace = self.trace()
        self.assertEqual((trace.lost_events, trace.lost_reason), (300 - 256, LOST_LIMIT))


class Runtimes(Programs):
    def test_loaded_rtld_local(self):
        """The program's runtime is in no scope: the wrapper finds it nevertheless."""
        runtime = build.library(os.path.join(self.dir, "libcudart.so.13"), "local_runtime.c", "-DRUNTIME", "-fvisibility=default",
                                "-Wl,-soname,libcudart.so.13")
        plugin = build.library(os.path.join(self.dir, "plugin.so"), "local_runtime.c", "-DPLUGIN", "-fvisibility=default", runtime,
                               "-Wl,-rpath," + self.dir)
        program = build.compile_(os.path.join(self.dir, "program"), "local_runtime.c", "-ldl")
        trace, events = self.check(self.run_program(program, plugin, preloads=[PRELOAD]))
        self.assertEqual({os.path.basename(trace.module(e[4])) for e in events}, {"plugin.so"})

    def test_disabled(self):
        """MEMTRACE_DISABLE: the wrappers call the real functions, and there is no file."""
        program = self.program("families")
        for way in ROUTES:
            out = self.run_program(program, "linear", way, MEMTRACE_DISABLE=1)
            self.assertIn("event DEVICE_FREE", out)
        self.assertEqual(self.paths(), [])


class Threads(Programs):
    def check_threads(self, *arguments):
        out = self.run_program(self.program("threads"), *arguments)
        trace = self.trace()
        self.assertEqual(trace.lost_events, 0)
        kinds = {name: k for k, name in mtr.ALLOC.items()}
        records = list(trace.records())
        for name, live, allocs, frees in re.findall(r"^live (\w+) (\d+) (\d+) (\d+)$", out, re.M):
            kind = kinds[name]
            left = trace.live(kind)  # also checks that only allocated addresses are freed
            slots = {int(a): int(n) for a, n in re.findall(r"^slot %s (\d+) (\d+)$" % name, out, re.M)}
            self.assertEqual({a: n for a, (n, _, _) in left.items()}, slots, name)
            self.assertEqual(sum(n for n, _, _ in left.values()), int(live), name)
            counts = [sum(r[5] == k for r in records) for k in (kind, kind + 1)]
            self.assertEqual(counts, [int(allocs), int(frees)], name)
        return trace

    def brute_force(self, trace):
        """The device's peak: memory that calls showed (linear and physical memory; of pools the reserved bytes, or the used ones if they are reported
        first) and other memory, which each sample shows."""
        tracked = used = level = hidden = peak = 0
        for _, a, n, _, _, kind, _ in trace.records():
            name = mtr.KINDS[kind]
            if name in ("DEVICE_ALLOC", "DEVICE_FREE", "PHYSICAL_ALLOC", "PHYSICAL_FREE"):
                tracked += n
            elif name in ("POOL_ALLOC", "POOL_FREE"):
                used += n
            elif name == "POOL_RESERVED":
                level = n
            elif name == "DEVICE_SAMPLE":
                hidden = max(n - a - tracked - max(used, level), 0)
            peak = max(peak, tracked + max(used, level) + hidden)
        return peak

    def test_conservation(self):
        for seed in (1, 2, 3, 4):
            with self.subTest(seed=seed):
                self.traces = os.path.join(self.dir, "seed-%d" % seed)
                self.check_threads(seed, 2000)

    def test_peak_equals_brute_force(self):
        for seed in (5, 6, 7):
            with self.subTest(seed=seed):
                self.traces = os.path.join(self.dir, "seed-%d" % seed)
                trace = self.check_threads(seed, 2000, "without-managed")
                peak = self.report()["ranks"][0]["peak"]
                self.assertEqual(peak["device_bytes"], self.brute_force(trace))
                self.assertEqual(sum(peak["by_owner"].values()), peak["device_bytes"])
                self.assertGreater(peak["by_owner"]["application"], 100 << 20)
                # the simulated pool never shrinks here: the last level is the highest
                levels = [r[2] for r in trace.records() if r[5] == 10]
                self.assertEqual(levels[-1], max(levels))

    def test_levels_in_order(self):
        """A level is a total: the last record must have the latest value, for every order of the recording threads."""
        program = self.program("pool_threads")
        for i in range(20):
            self.traces = os.path.join(self.dir, "run-%d" % i)
            (_, _, wanted, _), = self.expected(self.run_program(program))
            levels = [r[2] for r in self.trace().records() if r[5] == 10]
            self.assertGreater(len(levels), 40 * 8)
            self.assertEqual((levels[-1], max(levels), min(levels)), (wanted, wanted, 0))
            # each change is one pool's, of 64 MiB: a total recorded late would appear as another step
            self.assertEqual({abs(b - a) for a, b in zip(levels, levels[1:])}, {64 << 20})

    def test_managed_memory_is_not_device_memory(self):
        """Managed memory is virtual until it is touched, and may be larger than the device."""
        self.run_program(self.program("families"), "managed", "link")
        peak = self.report()["ranks"][0]["peak"]
        self.assertEqual(peak["by_owner"].get("application", 0), 0)


class Refused(Programs):
    """Features that the simulated device refuses, over tests/hooks/fake_device.c, whose runtime calls the driver through the hooks."""

    def setUp(self):
        super().setUp()
        self.between = (build.fake_device(self.dir),)

    def family(self, name):
        program = self.program("refused")
        trace, events = self.check(self.run_program(program, name))
        self.assertLessEqual({trace.module(e[4]) for e in events}, {MAIN})

    def test_arrays(self):
        self.family("arrays")

    def test_ipc(self):
        self.family("ipc")

    def test_external_memory(self):
        self.family("external")

    def test_import_and_multicast(self):
        self.family("import")

    def test_pool_pointer(self):
        self.family("pool_pointer")

    def test_graph_nodes(self):
        self.family("graph")

    def test_graph_upload(self):
        self.family("graph_upload")

    def test_graph_level_of_a_later_launch(self):
        self.family("graph_next_event")

    def test_graph_level_that_nothing_follows(self):
        """The helper thread reads the level; it is woken for that."""
        program = self.program("refused")
        for i in range(3):
            self.traces = os.path.join(self.dir, "run-%d" % i)
            self.run_program(program, "graph_trailing")
            levels = [r[2] for r in self.trace().records() if mtr.KINDS[r[5]] == "GRAPH_RESERVED"]
            if levels == [2 << 20, 4 << 20]:
                return
        self.fail(levels)

    def test_managed_pools(self):
        self.family("managed_pools")

    def test_driver_reset(self):
        self.family("driver_reset")

    def test_contexts(self):
        self.family("contexts")

    def test_null_arguments(self):
        self.family("null_arguments")


if __name__ == "__main__":
    import unittest
    unittest.main()
