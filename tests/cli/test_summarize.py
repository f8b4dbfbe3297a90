"""Records: every key is explained, report says the same of them as of the traces, and the order of merging does not matter."""
import hashlib
import json
import os
import pickle
import random
import re
import shlex
import subprocess
import unittest

from harness import BUILD, MEMTRACE, ROOT, Case

MIB = 1 << 20
# The kernel counts a process's memory before exec() too: the parent must be a small process, and this one is not.
MAN = os.path.join(ROOT, "docs", "man", "memtrace-summarize.1")


def keys_of_page():
    with open(MAN) as f:
        text = f.read().split(".Sh KEYS")[1].split(".Sh MOMENTS")[0]
    return {key for line in re.findall(r"^\.It (.*)", text, re.M) for key in re.findall(r"Cm (\w+)", line)}


class Summarize(Case):
    def setUp(self):
        super().setUp()
        os.mkdir(self.traces)
        subprocess.run([os.path.join(BUILD, "bench", "make_job"), self.traces, "70", "300"], check=True)

    def summarize(self, *arguments, **keys):
        return self.run_([MEMTRACE, "summarize", *arguments], **keys)

    def write(self, name, text):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.write(text)
        return path

    def test_keys_and_size(self):
        lines = self.summarize("--estimate", self.traces).stdout.splitlines()
        records = [json.loads(line) for line in lines]
        self.assertEqual(sorted(r["rank"] for r in records), list(range(70)))
        self.assertLess(max(map(len, lines)), 64 << 10)
        for record in records[:3]:
            self.assertEqual(set(record), keys_of_page())
            self.assertEqual(sum(record["peak"]["by_category"].values()), record["peak_allocated_bytes"])
        self.assertEqual(len({r["config_fingerprint"] for r in records}), 1)
        self.assertEqual({r["model"] for r in records}, {"gpt 16 layers x 512"})
        # its vocabulary is not declared, so there is nothing to estimate it by
        self.assertEqual({r["estimate"] for r in records}, {None})

    def test_report_of_records_is_that_of_traces(self):
        records = self.write("records", self.summarize(self.traces).stdout)
        a, b = (json.loads(self.run_([MEMTRACE, "report", "--json", x]).stdout) for x in (self.traces, records))
        self.assertEqual(a["findings"], b["findings"])
        self.assertEqual(a["job"], b["job"])
        for x, y in zip(a["ranks"], b["ranks"]):
            self.assertEqual({k for k in x if x[k] != y[k]} - {"peak", "timeline", "phase_starts"}, set())
            self.assertEqual({k for k in x["peak"] if x["peak"][k] != y["peak"][k]} - {"stacks"}, set())
        text = self.run_([MEMTRACE, "report", records]).stdout
        self.assertEqual(text.splitlines()[0], self.run_([MEMTRACE, "report", self.traces]).stdout.splitlines()[0])

    def last_line(self, *paths):
        words = shlex.split(self.run_([MEMTRACE, "report", *paths]).stdout.splitlines()[-1])
        return words[words[0] == "next":]

    def test_the_page_that_a_report_names(self):
        """The last line names what the report was made of: records, all directories, all files, or the one trace of a directory."""
        records = self.write("the records", self.summarize(self.traces).stdout)
        self.assertEqual(self.last_line(records), ["memtrace", "html", records])
        folders = [os.path.join(self.dir, name) for name in ("one", "two", "three")]
        files = [entry.path for entry in os.scandir(self.traces)]
        for folder, some in zip(folders, (files[:3], files[3:5], files[5:6])):
            os.mkdir(folder)
            for file in some:
                os.link(file, os.path.join(folder, os.path.basename(file)))
        for paths in folders, folders[:1], files[:4], files[:1]:
            self.assertEqual(self.last_line(*paths), ["memtrace", "html", *paths])
        self.assertEqual(self.last_line(folders[2]), ["memtrace", "html", os.path.join(folders[2], os.path.basename(files[5]))])

    def test_a_record_without_a_trace_and_a_host(self):
        record = json.loads(self.summarize(self.traces).stdout.splitlines()[0])
        for bare in dict(record, trace="", host="", end="unknown"), {key: record[key] for key in record if key not in ("trace", "host", "end")}:
            path = self.write("bare", json.dumps(bare) + "\n")
            self.assertEqual(self.last_line(path), ["memtrace", "html", path])
            text = " ".join(self.run_([MEMTRACE, "report", path]).stdout.split())
            self.assertNotIn("host ,", text)
            self.assertNotIn("''", text)
            self.assertIn("it is not known on which host its process would be, ", text)

    def test_the_rank_in_detail_of_many_records(self):
        """Of more records than are kept whole, the rank that is shown in detail is whole, wherever its record is; of equal ranks the first."""
        lines = [json.loads(line) for line in self.summarize(self.traces).stdout.splitlines()]
        place = lines[0]["places"][0]
        made = [dict(r, places=[dict(place, frame="f file.py:%d" % i) for i in range(20)], timeline=[[i, 1, 2, 3] for i in range(64)],
                     peak_allocated_bytes=2**40 if r["rank"] in (66, 68) else 2**30) for r in lines]
        for order in range(4):
            random.Random(order).shuffle(made)
            path = self.write("records", "".join(json.dumps(r) + "\n" for r in sorted(made, key=lambda r: r["rank"] in (66, 68))))
            ranks = json.loads(self.run_([MEMTRACE, "report", "--json", path]).stdout)["ranks"]
            self.assertEqual([(r["rank"], len(r["peak"]["stacks"]), len(r["timeline"])) for r in ranks if r["rank"] in (66, 68)], [(66, 20, 64), (68, 10, 64)])

    def test_record_of_a_snapshot(self):
        """A snapshot does not tell the device's peak nor its own end, and its record says so too."""
        block = {"address": 1 << 28, "size": 3 * MIB, "requested_size": 3 * MIB, "state": "active_allocated", "frames": []}
        segment = {"device": 0, "address": 1 << 28, "total_size": 4 * MIB, "allocated_size": 3 * MIB, "active_size": 3 * MIB, "stream": 0,
                   "segment_type": "large", "blocks": [block]}
        snapshot = os.path.join(self.dir, "snapshot.pickle")
        with open(snapshot, "wb") as f:
            event = {"action": "alloc", "addr": 1 << 28, "size": 3 * MIB, "stream": 0, "time_us": 1, "frames": []}
            pickle.dump({"segments": [segment], "device_traces": [[event]]}, f, protocol=2)
        record = self.write("record", self.summarize(snapshot).stdout)
        with open(record) as f:
            said = json.load(f)
        self.assertEqual([said[key] for key in ("imported", "peak_device_bytes", "peak_allocated_bytes")], [True, None, 3 * MIB])
        a, b = (json.loads(self.run_([MEMTRACE, "report", "--json", x]).stdout)["ranks"][0] for x in (snapshot, record))
        self.assertIsNone(b["peak"]["device_bytes"])
        self.assertEqual({k for k in a if a[k] != b[k]} - {"peak", "timeline", "phase_starts"}, set())
        a, b = (self.run_([MEMTRACE, "report", x]).stdout for x in (snapshot, record))
        for text in a, b:
            self.assertIn("the device's peak is unknown", text)
            self.assertNotIn("end record", text)

    def test_record_of_marked_steps(self):
        record = json.loads(self.summarize(self.traces).stdout.splitlines()[0])
        for marked in False, True:
            path = self.write("marked", json.dumps(dict(record, steps_marked=marked)) + "\n")
            self.assertEqual(json.loads(self.run_([MEMTRACE, "report", "--json", path]).stdout)["ranks"][0]["steps_marked"], marked)

    def runs_of(self, *arguments, **keys):
        """(run, restart, rank) of each row of a report, and what it says on stderr."""
        done = self.run_([MEMTRACE, "report", "--json", *arguments], timeout=60, **keys)
        return sorted((r["run_id"], r["restart_count"], r["rank"]) for r in json.loads(done.stdout)["ranks"]), done.stderr

    def restarts(self):
        """Two ranks each of three attempts: the first of job A ran out of memory, and job B began last; the lines of A and of B."""
        line = json.loads(self.summarize(self.traces).stdout.splitlines()[0])
        made = [json.dumps(dict(line, run=run, restart=restart, rank=rank, world_size=2, pid=10 * n + rank, start_time_ns=n, oom_count=ooms,
                                tensor_allocs=100 * n)) + "\n"
                for n, (run, restart, ooms) in enumerate((("A", 0, 1), ("A", 1, 0), ("B", 0, 0)), 1) for rank in range(2)]
        random.Random(3).shuffle(made)
        return [m for m in made if json.loads(m)["run"] == "A"], [m for m in made if json.loads(m)["run"] == "B"]

    def test_one_run_of_records(self):
        """As of a directory of traces: the latest run, the attempt of it that ran out of memory, or what --run names."""
        a, b = self.restarts()
        job, both, split = self.write("a", "".join(a)), self.write("both", "".join(a + b)), self.write("split", "".join(a[:1] + b))
        rest = self.write("rest", "".join(a[1:]))
        rows, said = self.runs_of(job)
        self.assertEqual(rows, [("A", 0, 0), ("A", 0, 1)])
        self.assertIn("this is run A:0; also here: A:1 (2 records); --run ID chooses", said)
        self.assertIn(":0 ran out of memory (shown), :1 did not run out of memory",
                      self.run_([MEMTRACE, "report", job]).stdout)
        for files in [both], [split, rest], [rest, split]:
            rows, said = self.runs_of(*files)
            self.assertEqual(rows, [("B", 0, 0), ("B", 0, 1)])
            self.assertIn("A:0 (2 records)", said)
            for choice, run, restart in ("A", "A", 1), ("A:0", "A", 0), (":1", "A", 1), ("oom", "A", 0), ("B:0", "B", 0), (":0", "B", 0):
                self.assertEqual(self.runs_of("--run", choice, *files), ([(run, restart, 0), (run, restart, 1)], ""), choice)
            for choice in "C", "A:2", ":7":
                self.assertIn('there is no run "%s" here' % choice, self.run_([MEMTRACE, "report", "--run", choice, *files], status=2).stderr)

    def test_a_small_run_among_many_records(self):
        """Two ranks are read after seventy of another run, of which one behind the first 64 had the highest peak."""
        lines = [json.loads(line) for line in self.summarize(self.traces).stdout.splitlines()]
        many = [dict(r, run="A", peak_allocated_bytes=2**40 if r["rank"] == 68 else 2**30) for r in lines]
        few = [dict(r, run="B", world_size=2, start_time_ns=r["start_time_ns"] + 10**9) for r in lines if r["rank"] < 2]
        rows, said = self.runs_of(self.write("records", "".join(json.dumps(r) + "\n" for r in many + few)))
        self.assertEqual(rows, [("B", 0, 0), ("B", 0, 1)])
        self.assertIn("A:0 (70 records)", said)

    def test_records_of_a_pipe(self):
        """What a pipe has is read once, though records of two attempts are read twice."""
        a, b = self.restarts()
        expected = [("A", 0, 0), ("A", 0, 1)]
        fifo = os.path.join(self.dir, "fifo")
        os.mkfifo(fifo)
        writer = subprocess.Popen(["sh", "-c", 'exec cat "$0" > "$1"', self.write("a", "".join(a)), fifo])
        self.assertEqual(self.runs_of(fifo)[0], expected)
        self.assertEqual(writer.wait(60), 0)
        job = 'cat "$0" | "$1" report --json %s'
        for name in "/dev/stdin", "-":
            said = self.run_(["sh", "-c", job % name, os.path.join(self.dir, "a"), MEMTRACE], timeout=60).stdout
            self.assertEqual(sorted((r["run_id"], r["restart_count"], r["rank"]) for r in json.loads(said)["ranks"]), expected)

    def test_records_of_a_running_job(self):
        """Summarized again and again, into one file: each process is there once, as it was last, in the report and in the page."""
        last = sorted((json.loads(line) for line in self.summarize(self.traces).stdout.splitlines()), key=lambda r: r["rank"])
        lines = [json.dumps(dict(r, ended=ended, end="exit" if ended else "running", events=r["events"] - 9 + n, peak_allocated_bytes=r["peak_allocated_bytes"] - 9 + n))
                 for r in last for n, ended in ((1, False), (2, False), (9, True))]
        random.Random(8).shuffle(lines)
        reports, pages = [], []
        for text in "\n".join(lines) + "\n", "".join(json.dumps(r) + "\n" for r in last):
            records, page = self.write("records", text), os.path.join(self.dir, "page.html")
            reports.append(json.loads(self.run_([MEMTRACE, "report", "--json", records]).stdout))
            self.run_([MEMTRACE, "html", records, "-o", page])
            with open(page, "rb") as f:
                pages.append(hashlib.sha256(f.read()).hexdigest())
        self.assertEqual([(r["rank"], r["end"], r["peak"]["allocated_bytes"]) for r in reports[0]["ranks"]],
                         [(r["rank"], "exit", r["peak_allocated_bytes"]) for r in last])
        self.assertEqual(*reports)
        self.assertEqual(*pages)

    def test_attempts_of_a_running_job(self):
        """The attempt that allocated most often is shown, however often another one was summarized."""
        a, _ = self.restarts()
        quiet = [dict(json.loads(line), oom_count=0) for line in a]     # attempt 1 allocated twice as often as attempt 0
        lines = [dict(r, events=n) for r in quiet for n in range(1 if r["restart"] else 9)]
        rows, said = self.runs_of(self.write("records", "".join(json.dumps(r) + "\n" for r in lines)))
        self.assertEqual(rows, [("A", 1, 0), ("A", 1, 1)])
        self.assertIn("also here: A:0 (2 records)", said)

    def test_kinds_are_not_mixed(self):
        records = self.write("records", self.summarize(self.traces).stdout)
        said = {self.run_([MEMTRACE, "report", *paths], status=2).stderr for paths in ((records, self.traces), (self.traces, records))}
        self.assertEqual(said, {"memtrace: %s has records and %s has none: name one kind\n" % (records, self.traces)})

    def held(self, records, *command):
        """The most memory of a command, `report --json` without another, in bytes."""
        return self.most_memory(*(command or ("report", "--json")), records)

    def test_memory_of_many_ranks(self):
        """Of 10,240 ranks a report may hold 128 MiB: of 2,048 a fifth of that, beside what one rank takes."""
        lines = [json.loads(line) for line in self.summarize(self.traces).stdout.splitlines()]
        ranks = [json.dumps(dict(lines[i % 70], rank=i, world_size=2048, pid=1 + i, host="node%d" % (i // 8))) + "\n" for i in range(2048)]
        one, many = self.write("one", ranks[0]), self.write("many", "".join(ranks))
        self.assertLess(self.held(many) - self.held(one), (128 << 20) * 2048 // 10240)

    def test_memory_of_long_jobs(self):
        """The same of a job of many steps, places and libraries, whose records are as long as they get there."""
        first = json.loads(self.summarize(self.traces).stdout.splitlines()[0])
        frame = "Module%d.forward /opt/training/lib/python3.11/site-packages/framework/modules/transformer/layer.py:%d"
        places = [dict(first["places"][0], frame=frame % (i, i), inner=frame % (i, i + 1), module="Model.Layers.Layer%d" % i) for i in range(20)]
        long = dict(first, places=places, place_count=300, step_count=5000, versions={"library%d" % i: "1.%d" % i for i in range(20)},
                    steps=[dict(first["steps"][0], step=1 + i + (i >= 32) * 4936) for i in range(64)],
                    timeline=[[i / 7, 10**9 + i, 2 * 10**9, 3 * 10**9] for i in range(64)])
        ranks = [json.dumps(dict(long, rank=i, world_size=2048, pid=1 + i, host="node%d" % (i // 8), trace="traces/node%d-%d.mtr" % (i // 8, i))) + "\n"
                 for i in range(2048)]
        one, many = self.write("one", ranks[0]), self.write("many", "".join(ranks))
        for command in ("report", "--json"), ("html", "-o", os.path.join(self.dir, "page")), ("html", "--redact", "-o", os.path.join(self.dir, "page")):
            self.assertLess(self.held(many, *command) - self.held(one, *command), (128 << 20) * 2048 // 10240, command)
        ranks = json.loads(self.run_([MEMTRACE, "report", "--json", many]).stdout)["ranks"]
        self.assertEqual([(s["frame"], s["module"]) for s in ranks[2000]["peak"]["stacks"]], [(p["frame"], p["module"]) for p in places[:10]])
        self.assertEqual(ranks[2000]["versions"], long["versions"])
        self.assertEqual([s["step"] for s in ranks[2000]["steps"]], [s["step"] for s in long["steps"]])
        for rank in 100, 2000:  # the highest of each four, whether it was read before there were so many ranks or after
            self.assertEqual([row[1] for row in ranks[rank]["timeline"]], [10**9 + i for i in range(3, 64, 4)])

    def test_memory_of_lists_of_nothing(self):
        """Rows of one character each: what is read of a line is not many times as long."""
        line = {"memtrace_record": 1, "run": "a", "device": 0, "oom": [0] * 15000, "places": [0] * 8000, "steps": [0] * 4000}
        one, many = (self.write("lines%d" % n, "".join(json.dumps(dict(line, rank=i), separators=(",", ":")) + "\n" for i in range(n))) for n in (1, 256))
        self.assertLess(self.held(many) - self.held(one), 256 * 32768)

    def test_merge(self):
        lines = self.summarize(self.traces).stdout.splitlines(True)
        random.Random(7).shuffle(lines)
        whole = self.summarize("--merge", self.write("all", "".join(lines))).stdout
        self.assertEqual(sorted(lines), sorted(whole.splitlines(True)))
        self.assertEqual([json.loads(line)["rank"] for line in whole.splitlines()], list(range(70)))
        a, b = self.write("a", "".join(lines[:40])), self.write("b", "".join(lines[30:]) + "\n")
        self.assertEqual(self.summarize("--merge", b, a, b).stdout, whole)
        done = subprocess.run([MEMTRACE, "summarize", "--merge"], input=whole + whole, stdout=subprocess.PIPE, text=True, check=True)
        self.assertEqual(done.stdout, whole)

    def test_merge_of_many(self):
        """10,240 records, in two files that share some, shuffled and repeated: the bytes of the sorted lines."""
        made, draw = [json.loads(line) for line in self.summarize(self.traces).stdout.splitlines()], random.Random(22)
        made = [{k: v for k, v in r.items() if k not in ("places", "steps", "timeline", "metrics")} for r in made]     # what is long
        lines = [json.dumps(dict(made[i % 70], rank=i, world_size=10240, pid=1 + i % 8, host="node%d" % (i // 8)), separators=(",", ":")) + "\n" for i in range(10240)]
        expected = hashlib.sha256("".join(lines).encode()).hexdigest()
        for _ in range(2):
            draw.shuffle(lines)
            a, b = self.write("a", "".join(lines[:7000])), self.write("b", "".join(lines[5000:] + lines[9000:]))
            for files in (a, b), (b, a, b):
                merged = self.summarize("--merge", *files).stdout
                self.assertEqual(hashlib.sha256(merged.encode()).hexdigest(), expected)
        self.assertEqual(merged.count("\n"), 10240)

    def test_what_is_no_record(self):
        line = self.summarize(self.traces).stdout.splitlines(True)[0]
        cut = self.write("cut", line + line[:100])
        done = self.summarize("--merge", cut)
        self.assertEqual(done.stdout, line)
        self.assertIn("%s:2: not a record" % cut, done.stderr)
        newer = self.write("newer", '{"memtrace_record":2}\n')
        self.assertIn("has version 2", self.summarize("--merge", newer, status=2).stderr)
        self.assertIn("newer:1", self.run_([MEMTRACE, "report", newer], status=2).stderr)
        long = self.write("long", '{"a":"%s"}\n' % ("x" * (1 << 20)) + line)
        done = self.summarize("--merge", long)
        self.assertEqual(done.stdout, line)
        self.assertIn("at most 65536", done.stderr)
        other = self.summarize("--merge", self.write("other", '{"a":1}\n' * 1000), status=2).stderr.splitlines()
        self.assertIn("995 more lines are no records", other[5])
        self.assertEqual(len(other), 7)
        self.assertIn("cannot open", self.summarize("--merge", self.dir + "/none", status=2).stderr)
        self.assertIn("needs the traces", self.run_([MEMTRACE, "report", "--json", "--live-set", cut], status=2).stderr)
        for command in ("match",), ("export", "--format", "csv", "-o", self.dir + "/out"):
            self.assertIn("needs the traces themselves", self.run_([MEMTRACE, *command, cut], status=2).stderr)
        self.assertIn("one kind", self.run_([MEMTRACE, "report", cut, self.traces], status=2).stderr)


if __name__ == "__main__":
    unittest.main()
