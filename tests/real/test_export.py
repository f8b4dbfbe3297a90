"""memtrace export: every format read by a program of other people, on three jobs, held against PyTorch's own counters and snapshot."""
import json
import os
import sys
import unittest

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
        for path in own, ours:
            self.run_([MEMTRACE, "html", "-o", "page.html", path])
            with open(os.path.join(self.dir, "page.html"), encoding="utf-8") as f:
                self.assertIn("exported.py", f.read())
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
