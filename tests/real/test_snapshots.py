"""PyTorch's own memory snapshots, read: expandable segments of which parts are unmapped, a history that is cut, pinned memory. The truth is PyTorch's
counters and what the pickle says to Python."""
import csv
import io
import json
import os
import pickle
import unittest

from harness import JOBS, MEMTRACE, MiB, Case, printed, python

JOB = os.path.join(JOBS, "snapshots.py")
ANNOTATED = os.path.join(JOBS, "annotated.py")
WHOLE, SHORT = 100000, 40  # entries of the history; the second one begins behind the peak


class Snapshots(Case):
    def snapshot(self, entries, expandable, *options):
        """PyTorch's counters and its snapshot, which is own.pickle."""
        done = self.simulate([python(), JOB, "own.pickle", str(entries), *options], PYTORCH_CUDA_ALLOC_CONF="expandable_segments:%s" % expandable)
        return printed(done.stdout, "peak")[0], self.load("own.pickle")

    def load(self, name):
        with open(os.path.join(self.dir, name), "rb") as f:
            return pickle.load(f)

    def read(self, name="own.pickle"):
        return json.loads(self.run_([MEMTRACE, "report", "--json", name]).stdout)["ranks"][0]

    def exported(self, form, *options, of="own.pickle"):
        return self.run_([MEMTRACE, "export", "--format", form, *options, of]).stdout

    def joined(self, ranges):
        """Adjacent ranges as one."""
        found = []
        for address, size in sorted(ranges):
            if found and sum(found[-1]) == address:
                found[-1][1] += size
            else:
                found.append([address, size])
        return found

    def held(self):
        """The segments at the end."""
        rows = csv.DictReader(io.StringIO(self.exported("csv", "--table", "segments")))
        return [(int(r["address"]), int(r["total_size"])) for r in rows if not r["freed_ns"]]

    def live(self, snapshot, key="segments"):
        return sorted((s["address"], s["total_size"], [(b["address"], b["requested_size"]) for b in s["blocks"] if b["state"] == "active_allocated"])
                      for s in snapshot[key])

    def check_segments(self, said, own):
        self.assertEqual(self.joined(self.held()), self.joined((s["address"], s["total_size"]) for s in own["segments"]))
        self.assertEqual(sum(size for _, size in self.held()), said["reserved"])
        self.run_([MEMTRACE, "export", "--format", "pytorch", "-o", "again.pickle", "own.pickle"])
        self.assertEqual(self.live(self.load("again.pickle")), self.live(own))

    def test_parts_of_maps_are_unmapped(self):
        said, own = self.snapshot(WHOLE, True)
        unmapped = [e["size"] for e in own["device_traces"][0] if e["action"] == "segment_unmap"]
        self.assertTrue(unmapped and max(unmapped) < 260 * MiB)  # the first map is one of 260 MiB
        self.check_segments(said, own)
        read = self.read()
        self.assertEqual((read["peak"]["allocated_bytes"], read["peak"]["reserved_bytes"]), (said["peak"], said["reserved_peak"]))
        self.assertNotIn("of", read["peak"])
        self.assertEqual(self.run_([MEMTRACE, "check", "--max-peak", str(said["peak"]), "own.pickle"]).stdout.split()[0], "ok")

    def check_cut(self, said, own):
        """The highest sums that the entries show, backwards from what is live at the end."""
        size = {"alloc": 1, "free_completed": -1, "segment_alloc": 1, "segment_free": -1, "segment_map": 1, "segment_unmap": -1}
        level = {True: said["live"], False: said["reserved"]}
        most = dict(level)
        for e in reversed(own["device_traces"][0]):
            is_block = not e["action"].startswith("segment")
            level[is_block] -= size.get(e["action"], 0) * e["size"]
            most[is_block] = max(most[is_block], level[is_block])
        read = self.read()
        self.assertLess(most[True], said["peak"])
        self.assertEqual((read["peak"]["allocated_bytes"], read["peak"]["reserved_bytes"]), (most[True], most[False]))
        self.assertEqual(read["peak"]["of"], "history")
        text = " ".join(self.run_([MEMTRACE, "report", "own.pickle"]).stdout.split())
        self.assertIn("in the recorded history, whose beginning is missing", text[:300])
        self.assertIn("max_entries", text)
        done = self.run_([MEMTRACE, "check", "--json", "--max-peak", str(said["peak"] - 1), "own.pickle"], status=2)
        rule, = json.loads(done.stdout)["rules"]
        self.assertEqual((rule["ok"], rule["bytes"]), (None, None))
        self.assertIn("lacks its beginning", rule["remark"])
        done = self.run_([MEMTRACE, "check", "--max-peak", str(most[True] - 1), "own.pickle"], status=1)
        self.assertRegex(done.stdout, "^OVER +max-peak .* in the recorded history")
        self.check_segments(said, own)
        done = self.run_([MEMTRACE, "export", "--format", "prometheus", "own.pickle"])
        self.assertIn("own.pickle: peaks of device 0 in the recorded history, whose beginning is missing", done.stderr)
        self.assertEqual(self.run_([MEMTRACE, "summarize", "own.pickle"]).stdout.count('"peak_of":"history"'), 1)
        self.check_exported(own, most)

    def check_exported(self, own, most):
        """Our export of it (check_segments) begins as late, with PyTorch's events; what was there before is in the segments alone."""
        again = self.read("again.pickle")["peak"]
        self.assertEqual((again["allocated_bytes"], again["reserved_bytes"], again["of"]), (most[True], most[False], "history"))
        ours, theirs = ([(e["action"], e["addr"], e["size"], e["time_us"]) for e in s["device_traces"][0] if e["action"] in ("alloc", "free_completed")]
                        for s in (self.load("again.pickle"), own))
        self.assertEqual(ours, theirs)
        for form in "perfetto", "heaptrack", "sqlite", "csv", "ndjson", "collapsed", "pytorch":
            done = self.run_([MEMTRACE, "export", "--format", form, "-o", "x", "own.pickle"])
            self.assertIn("own.pickle: peaks of device 0 in the recorded history, whose beginning is missing", done.stderr, form)

    def test_a_cut_history(self):
        self.check_cut(*self.snapshot(SHORT, False))

    def test_a_cut_history_of_expandable_segments(self):
        self.check_cut(*self.snapshot(SHORT, True))

    def test_pinned_memory_is_exported(self):
        _, own = self.snapshot(WHOLE, False, "host")
        segments = sorted((s["address"], s["total_size"]) for s in own["host_segments"])
        self.assertEqual(len(segments), 2)
        for source in "own.pickle", self.traces:
            self.run_([MEMTRACE, "export", "--format", "pytorch", "--at", "end", "-o", "again.pickle", source])
            again = self.load("again.pickle")
            self.assertEqual(sorted((s["address"], s["total_size"]) for s in again["host_segments"]), segments, source)
            for s in again["host_segments"]:
                self.assertEqual({k: type(v) for k, v in s.items()}, {k: type(v) for k, v in own["host_segments"][0].items()})
                self.assertEqual((s["device"], s["segment_type"]), (-1, "small"))
            self.assertEqual(sorted(e["addr"] for e in again["host_traces"] if e["action"] == "segment_alloc"), [a for a, _ in segments])
            self.assertEqual({k: type(v) for k, v in again["host_traces"][0].items()}, {k: type(v) for k, v in own["host_traces"][0].items()})
            self.assertEqual(self.read("again.pickle")["host_pinned_peak_bytes"], sum(size for _, size in segments))


class Annotations(Case):
    """The steps and phases of record_function(), from PyTorch's own file."""

    def annotated(self, how):
        """What PyTorch counted of each part, its annotations, and the report."""
        done = self.simulate([python(), ANNOTATED, "own.pickle", how])
        with open(os.path.join(self.dir, "own.pickle"), "rb") as f:
            annotations = pickle.load(f)["external_annotations"]
        return printed(done.stdout, "peak")[0]["peak"], annotations, json.loads(self.run_([MEMTRACE, "report", "--json", "own.pickle"]).stdout)["ranks"][0]

    def check(self, how, step):
        counted, annotations, rank = self.annotated(how)
        begun = [a["name"] for a in annotations if a["stage"] == "START"]
        self.assertEqual([name for name in begun if name.startswith(step)], [step + str(n) for n in range(4)] + ([step + "4"] if how == "profiler" else []))
        self.assertTrue(rank["steps_marked"])
        self.assertEqual([(s["step"], s["forwards"], s["backwards"]) for s in rank["steps"]][:4], [(n, 2, 2) for n in (1, 2, 3, 4)])
        phases = {}
        for row in rank["named_phases"]:
            phases[row["path"][-1]] = max(phases.get(row["path"][-1], 0), row["peak_bytes"])
        self.assertEqual({name for name in phases if not name.startswith(step)}, {name for name in begun if not name.startswith(step)})
        for name, size in counted.items():  # requested sizes: less by the rounding of two scalars
            self.assertLessEqual(0, size - phases[name])
            self.assertLess(size - phases[name], 2048, name)
        times = {row["path"][-1]: row["times"] for row in rank["named_phases"]}
        self.assertEqual((times["my forward"], times["scratch"], times["making the model"]), (8, 4, 1))
        return rank

    def test_numbered_ranges_are_steps(self):
        rank = self.check("step", "step ")
        self.assertEqual(rank["peak"]["named_phase"], ["scratch"])
        with open(os.path.join(self.dir, "own.pickle"), "rb") as f:
            own = pickle.load(f)
        with open(os.path.join(self.dir, "without.pickle"), "wb") as f:
            pickle.dump(dict(own, external_annotations=[]), f, protocol=4)
        without = json.loads(self.run_([MEMTRACE, "report", "--json", "without.pickle"]).stdout)["ranks"][0]
        self.assertEqual(len(without["steps"]), 8)  # those of the optimizer

    def test_steps_of_the_profiler(self):
        self.check("profiler", "ProfilerStep#")

    def test_there_and_back(self):
        """Our own export of that file has the same steps."""
        self.annotated("step")
        self.run_([MEMTRACE, "export", "--format", "pytorch", "-o", "again.pickle", "own.pickle"])
        steps = [[(s["step"], s["forwards"], s["backwards"], s["peak_bytes"])
                  for s in json.loads(self.run_([MEMTRACE, "report", "--json", name]).stdout)["ranks"][0]["steps"]] for name in ("own.pickle", "again.pickle")]
        self.assertEqual(*steps)


if __name__ == "__main__":
    unittest.main()
