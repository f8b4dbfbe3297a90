"""memtrace export: every format read by a program of other people, on three jobs, held against PyTorch's own counters and snapshot."""
import json
import os
import pickle
import sys
import unittest

import browser
import export_case
from export_formats import Formats
from export_snapshots import Snapshots
from harness import JOBS, MEMTRACE


class Expandable(Snapshots, Formats, export_case.Expandable):
    def test_every_command_reads_a_snapshot(self):
        """The numbers are those of the trace, whose processes said them."""
        own, peak = self.own_snapshot(self.said[0]), self.said[0]["peak"]
        ours = self.export("pytorch", name="ours.pickle")
        for limit, said_of_it, status in (peak, "ok ", 2), (peak - 1, "OVER ", 1):     # 2: whether the failure ended the job is not told
            done = self.run_([MEMTRACE, "check", "--max-peak", str(limit), ours], status=status)
            self.assertRegex(done.stdout, "(?m)^%s +max-peak" % said_of_it)
        changes = json.loads(self.run_([MEMTRACE, "diff", "--json", self.job.traces, ours]).stdout)
        changed = {i["name"]: (i["a_bytes"], i["b_bytes"], i["changed"]) for i in changes["items"] if i["kind"] == "peak"}
        self.assertEqual(changed["allocated"], (peak, peak, False))
        for path, rounding in (own, 0.01), (ours, 0):    # PyTorch's own has the sizes as requested
            self.run_([MEMTRACE, "html", "-o", "page.html", path])
            page = browser.Page(os.path.join(self.dir, "page.html"))
            self.addCleanup(page.close)
            self.assertAlmostEqual(int(page.facts()["peak.allocated_bytes"]), peak, delta=rounding * peak)
            self.assertIn("exported.py", page.run("document.body.innerText"))
        for form in "perfetto", "heaptrack", "sqlite", "ndjson", "prometheus", "pytorch":
            self.assertGreater(os.path.getsize(self.export(form, of=ours)), 1000, form)
        self.assertEqual(sum(int(row["size"]) for row in self.table("blocks", ours) if row["at_peak"] == "1"), peak)
        with open(self.export("collapsed", of=ours)) as f:
            self.assertEqual(sorted((s, int(n)) for s, n in (line.rsplit(" ", 1) for line in f)), sorted(self.collapsed()))


class Pinned(Snapshots, Formats, export_case.Pinned):
    pass


class Ddp(Snapshots, Formats, export_case.Ddp):
    def test_one_process_of_several(self):
        done = self.run_([MEMTRACE, "export", "--format", "collapsed", self.job.traces])
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()), max(s["peak"] for s in self.said))
        self.assertIn("--rank chooses another", done.stderr)
        for said in self.said:
            self.assertEqual(sum(b for _, b in self.collapsed("--rank", str(said["rank"]))), said["peak"])

    def test_of_one_rank_only(self):
        self.assertEqual([row["rank"] for row in self.table("processes", self.job.traces, "--rank", "1")], ["1"])


class Dying(Formats, export_case.Dying):
    """What the job leaves is read in every format, and read back."""
    script, phases = "train_gpt2.py", ["setup", "forward"]
    test_memory_viz, test_ptmem, test_keys = Snapshots.test_memory_viz, Snapshots.test_ptmem, Snapshots.test_keys_and_types_are_pytorch_s

    def ranks_of(self, path):
        report = json.loads(self.run_([MEMTRACE, "report", "--json", path]).stdout)
        return report["ranks"], [(f["rule"], f["bytes"], f["confidence"]) for f in report["findings"] if f["severity"] != "note"]

    @staticmethod
    def live_at_the_failure(path, device):
        """What PyTorch had asked for and not freed. Its counters are read later: the failed operation's own tensors are freed then."""
        with open(path, "rb") as f:
            events = pickle.load(f)["device_traces"][device]
        failed = max(n for n, e in enumerate(events) if e["action"] == "oom")
        return sum({"alloc": e["size"], "free_completed": -e["size"]}.get(e["action"], 0) for e in events[:failed])

    def check_read(self, path, said, recorded, cause):
        """Bytes in requested sizes (PyTorch's own file) are within a thousandth of those in blocks."""
        (read,), causes = self.ranks_of(path)
        failed, known = read["oom"][-1], recorded["oom"][-1]
        self.assertAlmostEqual(failed["allocated_bytes"], said["now"], delta=said["now"] / 1000)
        self.assertAlmostEqual(read["peak"]["allocated_bytes"], said["peak"], delta=said["peak"] / 1000)
        self.assertEqual(read["peak"]["reserved_bytes"], said["reserved"])
        for key in "step", "phase", "requested_bytes", "free_bytes":
            self.assertEqual(failed[key], known[key], key)
        for category, size in known["by_category"].items():
            self.assertAlmostEqual(failed["by_category"].get(category, 0), size, delta=said["now"] / 1000, msg=category)
        self.assertEqual(causes[0][0], cause[0])
        self.assertAlmostEqual(causes[0][1], cause[1], delta=cause[1] / 1000)
        return read, causes

    def test_a_job_that_died(self):
        ranks, causes = self.ranks_of(self.job.traces)
        self.assertEqual([r["end"] for r in ranks], ["oom", "oom"])
        self.assertEqual(causes[0][0], "ATTN_QUADRATIC")
        for rank, of_pytorch in zip(ranks, self.said):
            own, ours = self.own_snapshot(of_pytorch), self.export("pytorch", *self.of_rank(of_pytorch)[0])
            said = {**of_pytorch, "now": self.live_at_the_failure(own, rank["rank"])}
            for path in ours, own:
                read, _ = self.check_read(path, said, rank, causes[0])
            read, again = self.check_read(ours, said, rank, causes[0])
            self.assertEqual(read["peak"]["allocated_bytes"], said["peak"])
            self.assertEqual(read["oom"][-1]["allocated_bytes"], rank["oom"][-1]["allocated_bytes"])
            self.assertEqual(again[0][:2], causes[0][:2])


class Alone(export_case.Case):
    def test_a_process_without_ranks_is_rank_0(self):
        traces = os.path.join(self.dir, "alone")
        self.run_([MEMTRACE, "simulate", "-o", traces, "--", sys.executable, os.path.join(JOBS, "one_block.py"), "1000000"])
        done = self.run_([MEMTRACE, "export", "--format", "prometheus", "--rank", "0", traces])
        self.assertIn('rank="0"', done.stdout)
        for table in "processes", "records":
            done = self.run_([MEMTRACE, "export", "--format", "csv", "--table", table, "--rank", "0", traces])
            self.assertEqual({line.split(",")[0] for line in done.stdout.splitlines()}, {"rank", "0"}, table)
        self.assertIn("no trace of rank 1", self.run_([MEMTRACE, "export", "--format", "prometheus", "--rank", "1", traces], status=2).stderr)


if __name__ == "__main__":
    unittest.main()
