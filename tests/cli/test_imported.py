"""What files of other tools do not tell is unknown in every output: the device's peak, its owners, and the end. Sizes are written by hand."""
import json
import os
import pickle
import re
import unittest

from harness import MEMTRACE, Case, MiB

BASE = 1 << 28
WITHOUT_SETTINGS = object()


def event(action, address, size, at, **keys):
    return {"action": action, "addr": address, "size": size, "stream": 0, "time_us": at, "frames": [], **keys}


class Imported(Case):
    def snapshot(self, traces, segments=(), conf="", name="x.pickle", annotations=(), **more):
        """Two blocks, 3 of 4 MiB, unless others are given."""
        data = {"segments": list(segments), "device_traces": traces, "external_annotations": list(annotations), **more}
        if conf is not WITHOUT_SETTINGS:
            data["allocator_settings"] = {"PYTORCH_CUDA_ALLOC_CONF": conf}
        with open(os.path.join(self.dir, name), "wb") as f:
            pickle.dump(data, f, protocol=4)
        return name

    def history(self, *more):
        return [[event("segment_alloc", BASE, 4 * MiB, 1), event("alloc", BASE, 3 * MiB, 2), *more]]

    def profile(self, name="x.json"):
        """One block of 3 MiB, then a failed request."""
        events = [{"ph": "i", "cat": "cpu_instant_event", "name": "[memory]", "pid": 1, "tid": 1, "ts": 1, "args": {
                       "Device Type": 1, "Device Id": 0, "Addr": BASE, "Bytes": 3 * MiB, "Total Allocated": 3 * MiB, "Total Reserved": 4 * MiB}},
                  {"ph": "i", "cat": "cpu_instant_event", "name": "[OutOfMemory]", "pid": 1, "tid": 1, "ts": 2, "args": {
                       "Device Type": 1, "Device Id": 0, "Bytes": 1 << 40, "Total Allocated": 3 * MiB, "Total Reserved": 4 * MiB}}]
        with open(os.path.join(self.dir, name), "w", encoding="utf-8") as f:
            json.dump({"schemaVersion": 1, "traceEvents": events}, f)
        return name

    def json(self, *command, status=0):
        return json.loads(self.run_([MEMTRACE, *command], status=status).stdout)

    def files(self):
        oom = {"action": "oom", "size": 1 << 40, "device_free": MiB, "stream": 0, "time_us": 3, "frames": []}
        return self.snapshot(self.history(oom)), self.profile()

    def test_report(self):
        for name in self.files():
            rank = self.json("report", "--json", name)["ranks"][0]
            self.assertEqual((rank["peak"]["allocated_bytes"], rank["peak"]["reserved_bytes"]), (3 * MiB, 4 * MiB), name)
            self.assertEqual([rank["peak"][key] for key in ("device_bytes", "device_time_s", "by_owner")], [None] * 3)
            self.assertEqual((rank["owners"], rank["end"]), ([], "unknown"))
            self.assertEqual((rank["oom"][0]["survived"], rank["oom"][0]["by_owner"]), (None, None))
            self.assertEqual({point[3] for point in rank["timeline"]}, {None})
            text = self.run_([MEMTRACE, "report", name]).stdout
            self.assertEqual((text.count("the device's peak is unknown"), text.count("asked 1.0 TiB")), (1, 1))
            self.assertEqual(len(re.findall("device's\\s+peak", text)), 1, text)  # what is unknown is said once
            # 3 of 4 MiB are in tensors. How much of the device others have, or nobody, is not told: it is no part of the bar.
            legend, = re.findall("(?m)^ +.*cached and fragmented.*$", text)
            self.assertRegex(legend, "tensors 3.0 MiB  . cached and fragmented 1.0 *$")
            self.assertTrue(text.startswith("OUT OF MEMORY  process"), text[:60])
            record = self.json("summarize", name)
            self.assertIsNone(record["device_peak"])
            self.assertEqual((record["peak_device_bytes"], record["oom"][0]["survived"], record["end"]), (None, None, "unknown"))
            with open(os.path.join(self.dir, "record"), "w", encoding="utf-8") as f:
                json.dump(record, f)
            again = self.json("report", "--json", "record")["ranks"][0]
            self.assertEqual((again["peak"]["device_bytes"], again["oom"][0]["survived"], again["oom"][0]["by_owner"]), (None, None, None))

    def test_peaks_that_belong_to_no_total(self):
        """Of these a file tells at most the pinned memory: a snapshot with its history. Empty lists are those of a job that nobody asked for it."""
        def peaks(name):
            rank = self.json("report", "--json", name)["ranks"][0]
            metrics = self.run_([MEMTRACE, "export", "--format", "prometheus", name]).stdout
            with open(os.path.join(self.dir, "record"), "w", encoding="utf-8") as f:
                f.write(self.run_([MEMTRACE, "summarize", name]).stdout)
            again = self.json("report", "--json", "record")["ranks"][0]
            keys = ["%s_peak_bytes" % key for key in ("imported", "managed", "host_pinned", "host_registered")]
            self.assertEqual([again[key] for key in keys], [rank[key] for key in keys], name)
            return [rank[key] for key in keys], re.findall(r"(?m)^memtrace_host_pinned_peak_bytes\S* (\S+)$", metrics)
        for name in (*self.files(), self.snapshot(self.history(), name="empty.pickle", host_traces=[], host_segments=[])):
            self.assertEqual(peaks(name), ([None] * 4, []), name)
        pinned = [event("segment_alloc", BASE, 5 * MiB, 1), event("segment_free", BASE, 5 * MiB, 2)]
        found, (sample,) = peaks(self.snapshot(self.history(), name="pinned.pickle", host_traces=pinned, host_segments=[]))
        self.assertEqual((found, float(sample)), ([None, None, 5 * MiB, None], 5 * MiB))

    def test_check(self):
        """A limit for the device cannot be judged, and neither can what the failed request did."""
        for name in self.files():
            rules = {r["rule"]: r for r in self.json("check", "--json", "--max-device", "1GiB", "--max-reserved", "4MiB", name, status=2)["rules"]}
            self.assertEqual({name: r["ok"] for name, r in rules.items()}, {"out-of-memory": None, "max-reserved": True, "max-device": None})
            self.assertIn("does not tell it", rules["max-device"]["remark"])
            self.assertIn("does not tell whether", rules["out-of-memory"]["remark"])
            rules = {r["rule"]: r["ok"] for r in self.json("check", "--json", "--baseline", name, name, status=2)["rules"]}
            self.assertEqual(rules, {"out-of-memory": None, "baseline-peak": True, "baseline-reserved": True})
        done = self.run_([MEMTRACE, "check", "--max-peak", "1GiB", self.profile()], status=2)
        self.assertRegex(done.stdout, "ok +max-peak +3.0 MiB while it was profiled, at most 1.0 GiB")

    def test_two_files_are_compared_by_what_both_tell(self):
        name = self.snapshot([[event("alloc", 4096, MiB, 1)]])
        self.assertEqual([r["rule"] for r in self.json("check", "--json", "--baseline", name, name)["rules"]], ["baseline-peak", "baseline-reserved"])

    def test_a_limit_of_a_comparison(self):
        """A snapshot without its history tells no peak, so that none is known to have grown or not."""
        whole = self.snapshot([[event("alloc", 4096, MiB, 1)]], name="whole.pickle")
        cut = self.snapshot([[event("free_completed", 4096, MiB, 1), event("alloc", 8192, MiB, 2)]], name="cut.pickle")
        self.assertIn("no peak grew", self.run_([MEMTRACE, "diff", "--fail-over", "1%", whole, whole]).stdout)
        self.assertRegex(self.run_([MEMTRACE, "diff", "--fail-over", "1%", whole, cut], status=2).stdout, r"\? +whether a peak grew past the limit is not known")
        self.assertIsNone(self.json("diff", "--json", "--fail-over", "1%", whole, cut, status=2)["over"])

    def test_a_step_that_begins_a_history(self):
        """What was there before the history belongs to no step."""
        before = {"address": 1 << 30, "total_size": 64 * MiB, "allocated_size": 64 * MiB, "active_size": 64 * MiB, "device": 0, "stream": 0,
                  "segment_type": "large", "blocks": [{"address": 1 << 30, "size": 64 * MiB, "requested_size": 64 * MiB, "state": "active_allocated",
                                                       "frames": []}]}
        annotations = [{"name": "ProfilerStep#0", "stage": "START", "time_us": 1, "device": 0}]
        name = self.snapshot([[event("alloc", 4096, MiB, 51)]], segments=[before], annotations=annotations)
        rank, = self.json("report", "--json", name)["ranks"]
        self.assertEqual([start[2] for start in rank["phase_starts"]][:1], ["setup"])
        self.assertEqual(rank["peak"]["by_category"]["inputs"], MiB)

    def test_export_of_what_begins_late(self):
        """Read back, the export tells as much as the file did. A block of 2 MiB, of which there is no history, or of a history of 1 MiB more."""
        block = {"address": BASE, "size": 2 * MiB, "requested_size": 2 * MiB, "state": "active_allocated", "frames": []}
        segment = {"device": 0, "address": BASE, "total_size": 4 * MiB, "stream": 0, "segment_type": "large", "blocks": [block]}
        later = [event("alloc", BASE + 2 * MiB, MiB, 7), event("free_completed", BASE + 2 * MiB, MiB, 9)]
        for traces, peak, scope in ([[]], 2 * MiB, "moment"), ([later], 3 * MiB, "history"):
            name = self.snapshot(traces, [segment])
            for path in name, "again.pickle":
                found = self.json("report", "--json", path)["ranks"][0]["peak"]
                self.assertEqual((found["allocated_bytes"], found["reserved_bytes"], found["of"]), (peak, 4 * MiB, scope), path)
                self.run_([MEMTRACE, "export", "--format", "pytorch", "-o", "again.pickle", name])
            with open(os.path.join(self.dir, "again.pickle"), "rb") as f:
                again = pickle.load(f)
            self.assertEqual([(e["action"], e["time_us"]) for e in again["device_traces"][0] if e["action"] != "free_requested"],
                             [(e["action"], e["time_us"]) for e in traces[0]])

    def test_diff(self):
        for name in self.files():
            items = {(i["kind"], i["name"]): i for i in self.json("diff", "--json", name, name)["items"]}
            device = items["peak", "device"]
            self.assertEqual((device["a_bytes"], device["b_bytes"], device["changed"]), (None, None, False))
            self.assertEqual([key for key in items if key[0] == "owner"], [])
            self.assertRegex(self.run_([MEMTRACE, "diff", name, name]).stdout, "unknown +unknown +device")

    def test_prometheus(self):
        for name in self.files():
            names = set(re.findall(r"(?m)^memtrace_(\w+)", self.run_([MEMTRACE, "export", "--format", "prometheus", name]).stdout))
            self.assertIn("allocated_peak_bytes", names)
            self.assertEqual(names & {"device_bytes", "device_peak_bytes", "peak_owner_bytes"}, set())

    def test_perfetto(self):
        for name in self.files():
            self.run_([MEMTRACE, "export", "--format", "perfetto", "-o", "out", name])
            with open(os.path.join(self.dir, "out"), "rb") as f:
                tracks = re.findall(b"allocated|reserved|device|phases", f.read())
            self.assertIn(b"allocated", tracks)
            self.assertNotIn(b"device", tracks)

    def test_runs_of_a_directory(self):
        name, = (self.snapshot(self.history(), name="kept.mtr"),)
        run, = self.json("report", "--runs", "--json", self.dir)["runs"]
        self.assertEqual((run["peak_allocated_bytes"], run["peak_device_bytes"], run["end"]), (3 * MiB, None, "unknown"), name)

    def test_a_device_without_events_of_memory(self):
        """Each snapshot notes itself in the history of every device."""
        self.snapshot(self.history() + [[event("snapshot", 0, 0, 9)]])
        self.assertEqual([r["device"] for r in self.json("report", "--json", "x.pickle")["ranks"]], [0])
        block = {"address": BASE, "size": 2 * MiB, "requested_size": 2 * MiB, "state": "active_allocated", "frames": []}
        segment = {"device": 1, "address": BASE, "total_size": 2 * MiB, "blocks": [block]}
        self.snapshot(self.history() + [[event("snapshot", 0, 0, 9)]], [segment])
        ranks = self.json("report", "--json", "x.pickle")["ranks"]
        self.assertEqual([(r["peak"]["allocated_bytes"], r["peak"].get("of")) for r in ranks], [(3 * MiB, None), (2 * MiB, "moment")])

    def test_settings_of_the_allocator(self):
        """What is said of PyTorch's hint needs the settings."""
        oom = {"action": "oom", "size": 1 << 40, "device_free": MiB, "stream": 0, "time_us": 3, "frames": []}
        for conf, says in ("expandable_segments:True", True), ("", False), (WITHOUT_SETTINGS, False):
            rules = [f["rule"] for f in self.json("report", "--json", self.snapshot(self.history(oom), conf=conf))["findings"]]
            self.assertEqual("ADVICE_EXPANDABLE_ALREADY_ON" in rules, says, conf)
        # Of 4 MiB nothing is cached here: the hint does not help, whatever the settings are, if they are known.
        full = [[event("segment_alloc", BASE, 4 * MiB, 1), event("alloc", BASE, 4 * MiB, 2), oom]]
        for conf, says in ("", True), (WITHOUT_SETTINGS, False):
            rules = [f["rule"] for f in self.json("report", "--json", self.snapshot(full, conf=conf))["findings"]]
            self.assertEqual("ADVICE_EXPANDABLE_ALREADY_ON" in rules, says, conf)
        self.assertNotIn("PYTORCH_CUDA_ALLOC_CONF", self.run_([MEMTRACE, "summarize", self.snapshot(full)]).stdout)
        self.assertNotIn("ADVICE_EXPANDABLE_ALREADY_ON", [f["rule"] for f in self.json("report", "--json", self.profile())["findings"]])

    def test_top_names_the_kind_of_file(self):
        self.snapshot(self.history(), name="a.mtr")
        self.profile("b.mtr")
        text = self.run_([MEMTRACE, "top", "--once", self.dir], COLUMNS=200).stdout
        self.assertIn("a memory snapshot of PyTorch", text)
        self.assertIn("a trace of PyTorch's profiler", text)


if __name__ == "__main__":
    unittest.main()
