"""Tests of the format pytorch, and of the way there and back; for each of the jobs of export_case.py."""
import collections
import json
import os
import pickle
import re

from export_case import readers, running_sums
from harness import MEMTRACE, python

FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"
# Causes that need what a snapshot does not tell. The memory of the CUDA context and the number of ranks: these are of the trace only. Whether the job
# died of the failure: a snapshot has the advice, the trace of a job that goes on after it has not.
NOT_TOLD = {"CUDA_CONTEXT_OVERHEAD", "DIST_OPT_OFF", "ADVICE_EXPANDABLE_ALREADY_ON"}
# PyTorch's own programs. Of a snapshot at its peak, the stacks add up to the live bytes.
MEMORY_VIZ = """
import os, pickle, re, sys
from torch.cuda import _memory_viz as v
for path in sys.argv[2:]:
    data = pickle.load(open(path, 'rb'))
    lines = []
    def keep(text, script=None):
        lines.extend(l for l in text.splitlines() if l)
        return v.format_flamegraph(text, sys.argv[1]) if os.path.exists(sys.argv[1]) else '<svg'
    v.segsum(data); v.trace(data)
    assert '<svg' in v.memory(data, keep) and '<svg' in v.segments(data, keep)
    del lines[:]
    v.memory(data, keep)
    print(sum(int(l.rsplit(' ', 1)[1]) for l in lines if 'inactive' not in l))
"""


def types(values):
    """The keys of dictionaries with the types of their values."""
    return {tuple(sorted((key, type(item).__name__) for key, item in value.items())) for value in values}


def places(frames):
    """PyTorch calls a function by its name alone."""
    return [(f["name"].split(".")[-1], f["filename"], f["line"]) for f in frames]


def same_thread(text):
    """Autograd's threads have the number of their device, which a snapshot does not tell."""
    return re.sub(r"autograd_\d+", "autograd", text)


def events(snapshot, device):
    """What both have: the wait for a free is PyTorch's, and so is the mark of the snapshot. PyTorch maps several parts at
    once."""
    found = []
    for e in snapshot["device_traces"][device]:
        address = e.get("addr")
        if e["action"] in ("free_requested", "snapshot"):
            continue
        if e["action"] in ("segment_map", "segment_unmap") and found and found[-1][0] == e["action"] and found[-1][1] + found[-1][2] == address:
            found[-1] = (*found[-1][:2], found[-1][2] + e["size"], found[-1][3])
            continue
        size = e["size"] if e["action"] not in ("alloc", "free_completed") else -(-e["size"] // 512) * 512  # of the block
        found.append((e["action"], address, size, e["frames"]))
    return found


class Snapshots:
    def test_keys_and_types_are_pytorch_s(self):
        """Of every entry, not only of the first one."""
        for _, device, ours, theirs in self.snapshots("--at", "oom"):
            self.assertEqual(types([ours]), types([theirs]))
            self.assertEqual(ours["allocator_settings"], theirs["allocator_settings"])
            for of in (lambda s: s["segments"], lambda s: [b for part in s["segments"] for b in part["blocks"]], lambda s: s["external_annotations"],
                       lambda s: [s["allocator_settings"]["roundup_power2_divisions"]],
                       lambda s: [f for of in s["device_traces"] + [s["segments"]] for e in of for f in e.get("frames", [])],
                       lambda s: [f for part in s["segments"] for b in part["blocks"] for f in b["frames"]]):
                self.assertEqual(types(of(ours)), types(of(theirs)))
            actions = {e["action"] for e in theirs["device_traces"][device]} - {"snapshot"}
            self.assertEqual({e["action"] for e in ours["device_traces"][device]}, actions)
            for action in actions:
                def chosen(snapshot):
                    return [e for e in snapshot["device_traces"][device] if e["action"] == action]
                self.assertEqual(types(chosen(ours)), types(chosen(theirs)), action)

    def test_events_segments_and_blocks_are_pytorch_s(self):
        with_small = self.settings.get("MEMTRACE_STACK_MIN") == "0"
        for _, device, ours, theirs in self.snapshots("--at", "oom"):
            self.assertEqual([e[:3] for e in events(ours, device)], [e[:3] for e in events(theirs, device)])

            def parts(snapshot):
                return sorted((s["device"], s["address"], s["total_size"], s["allocated_size"], s["active_size"], s["segment_type"], s["is_expandable"],
                               [(b["address"], b["size"], b["state"]) for b in s["blocks"]]) for s in snapshot["segments"])
            self.assertEqual(parts(ours), parts(theirs))
            compared = 0
            for (action, _, size, our_frames), (_, _, _, their_frames) in zip(events(ours, device), events(theirs, device)):
                if action in ("alloc", "free_completed") and (with_small or size >= 1 << 16):
                    compared += 1
                    self.assertEqual(places(our_frames), places(their_frames))
            self.assertGreater(compared, 150)

    def test_memory_viz(self):
        """PyTorch's own programs, of two versions."""
        paths = [self.export("pytorch", "--at", "peak", *self.of_rank(said)[0], name="peak%d.pickle" % k) for k, said in enumerate(self.said)]
        for version in "2.5", "2.15":
            done = self.run_([python(version), "-c", MEMORY_VIZ, FLAMEGRAPH, *paths])
            self.assertEqual([int(line) for line in done.stdout.splitlines()[-len(paths):]], [s["peak"] for s in self.said], version)

    def test_ptmem(self):
        readers()
        from ptmem.cli import MemoryProfileData
        for said in self.said:
            self.assertEqual(MemoryProfileData(self.export("pytorch", *self.of_rank(said)[0])).max_memory, said["peak"])

    def blocks(self, path, *options):
        """All blocks with what was found out about each. The numbers of stacks are each file's own."""
        stacks = {row["stack"]: row["frames"] for row in self.table("stacks", path, *options)}
        return sorted((int(b["address"]), int(b["size"]), b["phase"], b["step"] if b["phase"] != "setup" else "", b["at_peak"], b["category"],
                       same_thread(b["thread"]), stacks[b["stack"]]) for b in self.table("blocks", path, *options))

    def check_failures(self, read, recorded):
        self.assertEqual(len(read["oom"]), len(recorded["oom"]))
        for key in "step", "phase", "thread", "requested_bytes", "allocated_bytes", "reserved_bytes", "free_bytes", "largest_free_bytes", "by_category":
            self.assertEqual(read["oom"][-1].get(key), recorded["oom"][-1].get(key), key)

    def check_verdict(self, read, recorded, rank):
        """The same causes in the same order, but for those that no snapshot can tell."""
        def causes(report, rank):
            return [(f["rule"], f["bytes"]) for f in report["findings"] if f["rank"] == rank and f["rule"] not in NOT_TOLD]
        self.assertEqual(causes(read, 0), causes(recorded, rank))
        self.assertIn("HUGE_TENSORS", [rule for rule, _ in causes(read, 0)])

    def recorded(self, said):
        report = self.job.report()
        return report, next(r for r in report["ranks"] if r["rank"] == max(said["rank"], 0))

    def test_there_and_back(self):
        """trace -> pytorch -> report: the peak, every block with its address, category and stack, and the verdict on the failure."""
        for said in self.said:
            rank, _ = self.of_rank(said)
            path = self.export("pytorch", *rank, name="back%d.pickle" % said["rank"])
            (report, read), (whole, recorded) = self.report_of(path), self.recorded(said)
            self.assertEqual(read["peak"]["allocated_bytes"], said["peak"])
            for key in "allocated_bytes", "reserved_bytes", "step", "phase", "by_category", "blocks":
                self.assertEqual(read["peak"][key], recorded["peak"][key], key)
            steps = [[(s["step"], s["forwards"], s["backwards"], s["peak_bytes"]) for s in r["steps"]] for r in (read, recorded)]
            self.assertEqual(*steps)

            def stacks(of):
                found = collections.Counter()
                for s in of["peak"]["stacks"]:
                    found[same_thread(s["stack"])] += s["bytes"]
                return found
            self.assertEqual(stacks(read), stacks(recorded))
            blocks = self.blocks(path)
            self.assertEqual(blocks, self.blocks(self.job.traces, *rank))
            self.assertEqual(len(blocks), said["blocks"])
            self.assertEqual(sum(b[1] for b in blocks if b[4] == "1"), said["peak"])
            self.assertTrue(all(b[5] for b in blocks if b[4] == "1"))
            self.check_failures(read, recorded)
            self.check_verdict(report, whole, recorded["rank"])

    def test_pytorch_s_own_snapshot_is_read(self):
        """The peak is the highest sum of requested sizes, to the byte, and within 1 % of PyTorch's counter of blocks."""
        for said in self.said:
            _, device = self.of_rank(said)
            path = self.own_snapshot(said)
            with open(path, "rb") as f:
                theirs = pickle.load(f)["device_traces"][device]
            live, deltas = {}, []
            at_peak, level, peak = set(), 0, 0
            for e in theirs:
                if e["action"] == "alloc":
                    live[e["addr"]] = e["size"]
                    deltas.append(e["size"])
                elif e["action"] == "free_completed":
                    deltas.append(-live.pop(e["addr"]))
                else:
                    continue
                level += deltas[-1]
                if level > peak:
                    peak, at_peak = level, set(live.items())
            self.assertEqual(peak, running_sums((0, d) for d in deltas)[0])
            (report, read), (whole, recorded) = self.report_of(path), self.recorded(said)
            self.assertEqual(read["peak"]["allocated_bytes"], peak)
            self.assertLess(abs(peak / said["peak"] - 1), 0.01)
            self.assertEqual(read["peak"]["reserved_bytes"], said["reserved"])
            self.assertEqual({(b[0], b[1]) for b in self.blocks(path) if b[4] == "1"}, at_peak)
            self.assertIsNone(read["peak"]["device_bytes"])
            self.assertEqual(sum("memory snapshot" in w for w in read["warnings"]), 1)
            oom = next(e for e in theirs if e["action"] == "oom")
            self.assertEqual((read["oom"][-1]["requested_bytes"], read["oom"][-1]["free_bytes"]), (oom["size"], oom["device_free"]))
            self.check_failures(read, recorded)
            self.check_verdict(report, whole, recorded["rank"])
            small = 4096    # what the rounding of small blocks changes
            told, known = ({c: size for c, size in of["peak"]["by_category"].items() if c not in ("activations", "temporaries")} for of in (read, recorded))
            self.assertEqual(set(told), set(known))
            for category, size in known.items():
                self.assertAlmostEqual(told[category], size, delta=small, msg=category)
