"""The history of runs: what is out of its spread is named, writers at once and killed ones lose nothing, and other files are left alone."""
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import time
import unittest

from harness import JOBS, MEMTRACE, Case

DECLARED = {"num_layers": 2, "hidden_size": 512, "vocab_size": 32000, "num_attention_heads": 8, "seq_length": 512, "micro_batch_size": 2}
WEEK_NS = 7 * 86400 * 10**9
GB = 10**9


class History(Case):
    def setUp(self):
        super().setUp()
        self.file = os.path.join(self.dir, "data", "history.sqlite")

    def history(self, *arguments, **keys):
        return self.run_([MEMTRACE, "history", "--file", self.file, *arguments], **keys)

    def read(self, *arguments):
        return json.loads(self.history("--json", *arguments).stdout)

    def simulated(self, size, name="traces"):
        traces = os.path.join(self.dir, name)
        with open(os.path.join(self.dir, "job.json"), "w") as f:
            json.dump(DECLARED, f)
        self.run_([MEMTRACE, "simulate", "-o", traces, "--", sys.executable, os.path.join(JOBS, "one_block.py"), str(size)],
                  MEMTRACE_CONFIG=os.path.join(self.dir, "job.json"))
        return traces

    def record(self):
        """The record of a simulated run with an estimate, to make others of."""
        return json.loads(self.run_([MEMTRACE, "summarize", "--estimate", self.simulated(GB)]).stdout)

    def write(self, name, records):
        path = os.path.join(self.dir, name)
        with open(path, "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in records)
        return path

    def test_one_of_thirty_runs(self):
        """Thirty simulated runs, which differ by up to a thousandth; one needs 5 % more."""
        draw, large = random.Random(22), 17
        for i in range(30):
            self.simulated(int(4 * GB * (1.05 if i == large else 1 + draw.random() / 1000)), "run%d" % i)
            self.history("add", os.path.join(self.dir, "run%d" % i))
        trend, = self.read("trend")["trends"]
        self.assertEqual(trend["all"]["runs"], 30)
        self.assertTrue(trend["simulated"])
        runs = self.read("list")["runs"]
        self.assertEqual([o["run"] for o in trend["out"]], [runs[large]["run"]])
        text = self.history("trend").stdout
        self.assertIn("run %d (%s" % (runs[large]["id"], runs[large]["run"]), text)
        self.assertEqual(text.count("run %d (" % runs[0]["id"]), 0)

    def test_weeks_and_prediction(self):
        first, runs = self.record(), []
        now = first["start_time_ns"]
        for i in range(12):
            this_week = i >= 6
            runs.append(dict(first, run="r%d" % i, simulated=False, start_time_ns=now - (0 if this_week else WEEK_NS * 3 // 2) - i * 10**9,
                             peak_allocated_bytes=int(GB * (1.10 if this_week else 1.0)) + i * 1000,
                             estimate=dict(first["estimate"], allocated_bytes=GB)))
        self.history("add", "--job", "nightly", self.write("records", runs))
        trend, = self.read("trend")["trends"]
        self.assertEqual((trend["job"], trend["now"]["runs"], trend["before"]["runs"], trend["change"]), ("nightly", 6, 6, "more"))
        ratios = [r["peak_allocated_bytes"] / GB for r in runs]
        middle = statistics.median_low(ratios)
        self.assertEqual(trend["prediction"]["runs"], 12)
        self.assertAlmostEqual(trend["prediction"]["median_ratio"], middle, 5)
        self.assertAlmostEqual(trend["prediction"]["median_deviation"], statistics.median_low(abs(r - middle) for r in ratios), 5)
        text = self.history("trend", "--job", "nightly").stdout
        self.assertIn("10.0 % more than the 7 days before", text)
        self.assertIn("there is no", self.history("show", "none", status=2).stderr)
        self.assertIn("no run of job", self.history("trend", "--job", "other", status=2).stderr)
        # one more run, of the same id as one that is there: it takes its place
        self.history("add", self.write("again", [dict(runs[0], peak_allocated_bytes=7)]))
        listed = self.read("list")["runs"]
        self.assertEqual(len(listed), 12)
        self.assertEqual([r["allocated_bytes"] for r in listed if r["run"] == "r0"], [7])

    def test_prediction_without_runs_that_died(self):
        """A run that died had not reached what it needs: it says nothing of the prediction."""
        first = self.record()
        ends = ["exit"] * 3 + ["oom"] * 4 + ["killed", "unknown"]
        runs = [dict(first, run="r%d" % i, simulated=False, end=end, estimate=dict(first["estimate"], allocated_bytes=GB),
                     peak_allocated_bytes=GB * (102 + i) // 100 if end == "exit" else GB // 5) for i, end in enumerate(ends)]
        self.history("--job", "nightly", "add", self.write("records", runs))
        trend, = self.read("trend")["trends"]
        self.assertEqual((trend["all"]["runs"], trend["prediction"]["runs"]), (9, 3))
        self.assertAlmostEqual(trend["prediction"]["median_ratio"], 1.03, 5)
        self.history("--job", "others", "add", self.write("died", [dict(runs[3], run="died")]))
        self.assertIn("no run that exited in order has an estimate", " ".join(self.history("--job", "others", "trend").stdout.split()))

    def test_one_job(self):
        """--job with every question: the other jobs' runs are not there."""
        first = self.record()
        for job in "day", "night":
            self.history("--job", job, "add", self.write(job, [dict(first, run=job + str(i)) for i in range(2)]))
        self.assertEqual([{r["run"] for r in self.read(*words)["runs"]} for words in (("list",), ("--job", "night", "list"), ("--job", first["model"], "list"))],
                         [{"day0", "day1", "night0", "night1"}, {"night0", "night1"}, {"day0", "day1", "night0", "night1"}])
        self.assertIn("\nrun         4", self.history("--job", "night", "compare", "3", "4").stdout)
        self.assertIn('there is no run "1"', self.history("--job", "night", "show", "1", status=2).stderr)
        for words in ("list",), ("trend",), ("show", "1"):
            self.assertIn('has no run of job "none"', self.history("--job", "none", *words, status=2).stderr)

    def nodes(self, count=16):
        """The records of a run's ranks, by node: rank 3 needs the most, and rank 6 ran out of memory."""
        first, nodes = self.record(), []
        for i in range(count):
            record = dict(first, run="7", simulated=False, rank=i, world_size=count, device=i % 4, host="node%d" % (i // 4), pid=100 + i % 4, step_count=i,
                          start_time_ns=first["start_time_ns"] + (20 - i) * 10**9, duration_s=i + 0.5, end="oom" if i == 6 else "exit",
                          verdict="LEAK" if i == 6 else "CACHE", peak_allocated_bytes=GB + i * 5 % 16, peak=dict(first["peak"], by_category={"parameters": 1000 + i}))
            nodes += [[]] * (i % 4 == 0)
            nodes[-1] = nodes[-1] + [record]
        return nodes

    def check_nodes(self, run, ranks, worst, oom):
        self.assertEqual((run["ranks"], run["allocated_bytes"], run["steps"]), (ranks, GB + worst * 5 % 16, worst))
        self.assertEqual([p["peak_bytes"] for p in run["components"] if p["component"] == "parameters"], [1000 + worst])
        self.assertEqual((run["end"], run["verdict"]), ("oom", "LEAK") if oom else ("exit", "CACHE"))

    def test_nodes_add_their_own_ranks(self):
        """In any order and repeatedly: the run is that of all ranks added at once."""
        nodes, draw = self.nodes(), random.Random(22)
        self.history("add", self.write("whole", [r for node in nodes for r in node]))
        whole, = self.read("show", "7")["runs"]
        self.check_nodes(whole, 16, 3, True)
        self.assertEqual((whole["started_ns"], whole["duration_ms"]), (nodes[3][3]["start_time_ns"], 15500))
        orders = [[0, 1, 2, 3], [3, 2, 1, 0], *(draw.sample([0, 1, 2, 3, 1, 0, 2], 7) + [3] for _ in range(3))]
        for n, order in enumerate(orders):
            self.file = os.path.join(self.dir, "history%d" % n)
            for k, node in enumerate(order):
                self.history("add", self.write("node", draw.sample(nodes[node], 4)))
                run, = self.read("show", "7")["runs"]
                known = sorted({i for m in order[:k + 1] for i in range(4 * m, 4 * m + 4)})
                self.check_nodes(run, len(known), max(known, key=lambda i: i * 5 % 16), 6 in known)
                self.assertEqual(run["id"], 1)
            self.assertEqual({k: v for k, v in run.items() if k != "added_ns"}, {k: v for k, v in whole.items() if k != "added_ns"}, order)
        self.assertEqual(len(self.read("list")["runs"]), 1)

    def test_nodes_add_at_once(self):
        nodes = self.nodes(32)
        paths = [self.write("node%d" % i, node) for i, node in enumerate(nodes)]
        writers = [subprocess.Popen([MEMTRACE, "history", "--file", self.file, "add", path], stdout=subprocess.DEVNULL) for path in paths]
        self.assertEqual([w.wait() for w in writers], [0] * 8)
        self.check_nodes(self.read("show", "7")["runs"][0], 32, 3, True)   # and not its like, rank 19

    def test_a_rank_that_is_added_again(self):
        """Its record is the new one; another run with the same id takes the place of a run, rank by rank or, with other ranks, whole."""
        nodes = self.nodes()
        self.history("--job", "nightly", "add", self.write("all", [r for node in nodes for r in node]))
        self.history("add", self.write("again", [dict(r, pid=900, start_time_ns=r["start_time_ns"] + WEEK_NS, end="exit", verdict="CACHE") for r in nodes[1]]))
        run, = self.read("show", "7")["runs"]
        self.check_nodes(run, 16, 3, False)
        self.assertEqual(run["job"], "nightly")
        self.history("add", self.write("lower", [dict(nodes[0][3], peak_allocated_bytes=7)]))   # it was the worst: the parts of the next are not known
        run, = self.read("show", "7")["runs"]
        self.assertEqual((run["ranks"], run["allocated_bytes"], run["steps"], run["components"]), (16, GB + 14, 6, []))
        self.history("add", self.write("smaller", [dict(r, world_size=4, config={"num_layers": "9"}) for r in nodes[0]]))
        run, = self.read("show", "7")["runs"]
        self.check_nodes(run, 4, 3, False)
        self.assertEqual(run["config"], {"num_layers": "9"})

    def test_processes_without_ranks(self):
        """Such a process is itself: by its host, its number and its start."""
        first = dict(self.record(), run="7", rank=None, world_size=None, device=0, simulated=False)
        for more in {}, {"pid": 1}, {"host": "other"}, {"start_time_ns": 5}, {}, {"device": 1}:
            self.history("add", self.write("records", [dict(first, **more)]))
        self.assertEqual([r["ranks"] for r in self.read("list")["runs"]], [5])

    def test_history_of_an_older_memtrace(self):
        """Its runs are shown; one whose ranks are not known is replaced, and ranks are added from then on."""
        nodes = self.nodes()
        self.history("add", self.write("all", [r for node in nodes for r in node]))
        with sqlite3.connect(self.file) as db:
            db.execute("DROP TABLE ranks")
            db.execute("PRAGMA user_version = 1")
        db.close()
        with open(self.file, "rb") as f:
            older = f.read()
        self.check_nodes(self.read("show", "7")["runs"][0], 16, 3, True)
        with open(self.file, "rb") as f:
            self.assertEqual(f.read(), older, "who only reads leaves the file as it is")
        for k, (ranks, worst) in enumerate(((4, 3), (8, 3))):
            self.history("add", self.write("node", nodes[k]))
            self.check_nodes(self.read("show", "7")["runs"][0], ranks, worst, k == 1)

    def test_several_ranks_components_and_comparison(self):
        first = self.record()
        ranks = [dict(first, rank=i, world_size=4, simulated=False, peak_allocated_bytes=GB + i) for i in range(4)]
        ranks[2]["end"] = "oom"
        self.history("add", self.write("a", ranks))
        self.history("add", self.write("b", [first]))
        run, = (r for r in self.read("list")["runs"] if not r["simulated"])
        self.assertEqual((run["ranks"], run["allocated_bytes"], run["end"]), (4, GB + 3, "oom"))
        observed, simulated = self.read("show", str(run["id"]))["runs"]
        self.assertTrue(simulated["simulated"])
        parts = {p["component"]: p for p in observed["components"]}
        self.assertEqual({k: v["estimated_bytes"] for k, v in parts.items() if v["estimated_bytes"] is not None},
                         first["estimate"]["by_component"])
        self.assertEqual(parts["context"]["peak_bytes"], first["owners"]["context"]["at_peak_bytes"])
        self.assertEqual(observed["config"]["num_layers"], "2")
        text = self.history("show", str(run["id"])).stdout
        self.assertIn("simulated", text)
        self.assertIn("num_layers 2", text)
        self.assertNotIn('"num_layers"', text)
        changed = dict(first, run="later", config=dict(first["config"], seq_length="1024"))
        self.history("add", self.write("c", [changed]))
        text = self.history("compare", first["run"], "later").stdout
        self.assertIn("seq_length: 512, then 1024", " ".join(text.split()))

    def test_the_end_that_explains_the_others(self):
        """A rank without an end says nothing: whichever rank comes first, the run's end is the one that is known."""
        first = self.record()
        for i, (ends, kept) in enumerate(((("", "oom"), "oom"), (("oom", ""), "oom"), (("exit", ""), "exit"), (("", "exit"), "exit"), (("", ""), None),
                                          (("exit", "killed"), "killed"))):
            ranks = [dict({k: v for k, v in first.items() if k != "end"}, run="r%d" % i, rank=k, world_size=2, **({"end": end} if end else {}))
                     for k, end in enumerate(ends)]
            self.history("add", self.write("records%d" % i, ranks))
            run, = (r for r in self.read("list")["runs"] if r["run"] == "r%d" % i)
            self.assertEqual(run["end"], kept, ends)

    def test_the_verdict_on_a_run_that_ran_out_of_memory(self):
        """The rank that ran out of memory is not the one with the highest peak, wherever it is among the ranks; else the highest peak decides."""
        first = self.record()
        cases = [[("oom", "LEAK", 1), ("exit", None, 2), ("exit", "CACHE", 3)], [("exit", None, 2), ("oom", "LEAK", 1), ("exit", "CACHE", 3)],
                 [("exit", "CACHE", 3), ("exit", None, 2), ("oom", "LEAK", 1)], [("oom", None, 3), ("oom", "LEAK", 1), ("exit", "CACHE", 2)],
                 [("exit", None, 1), ("exit", "LEAK", 3), ("exit", "CACHE", 2)]]
        self.history("add", self.write("records", [
            dict(first, run="r%d" % i, rank=k, world_size=3, pid=k + 1, end=end, verdict=verdict, peak_allocated_bytes=peak * GB)
            for i, ranks in enumerate(cases) for k, (end, verdict, peak) in enumerate(ranks)]))
        for run in self.read("list")["runs"]:
            self.assertEqual((run["verdict"], run["allocated_bytes"]), ("LEAK", 3 * GB), run["run"])

    def test_components_that_cannot_be_read(self):
        """The database answers with an error behind the first component: the run is not shown with a part of its components."""
        first = self.record()
        self.history("add", self.write("records", [first]))
        with sqlite3.connect(self.file) as db:
            db.execute("ALTER TABLE components RENAME TO kept")
            # abs() of the smallest integer is SQLite's "integer overflow"
            db.execute("CREATE VIEW components AS SELECT run, component, CASE component WHEN (SELECT max(component) FROM kept) "
                       "THEN abs(-9223372036854775808) ELSE observed END AS observed, estimated FROM kept")
        db.close()
        done = self.history("show", first["run"], status=2)
        self.assertIn("integer overflow", done.stderr)
        self.assertEqual(done.stdout, "")

    def test_estimate_with_the_history(self):
        first = self.record()
        runs = [dict(first, run="r%d" % i, simulated=False, peak_allocated_bytes=int(first["estimate"]["allocated_bytes"] * ratio))
                for i, ratio in enumerate((1.02, 1.03, 1.04))]
        runs.append(dict(first, run="died", simulated=False, end="oom", peak_allocated_bytes=1))
        self.history("add", self.write("records", runs))
        command = [MEMTRACE, "estimate", "--config", os.path.join(self.dir, "job.json")]
        plain = self.run_(command).stdout
        self.assertNotIn("history", plain)
        told = self.run_([*command, "--history-file", self.file]).stdout
        self.assertIn("3 runs of this configuration", " ".join(told.split()))
        self.assertIn("used 1.030 of the estimate, ± 0.010", " ".join(told.split()))
        a, b = (json.loads(self.run_([*command, "--json", *more]).stdout) for more in ([], ["--history-file", self.file]))
        history = b.pop("history")
        self.assertEqual(a, b)
        self.assertEqual(history["runs"], 3)
        self.assertAlmostEqual(history["corrected_bytes"] / first["estimate"]["allocated_bytes"], 1.03, 4)
        other = self.run_([*command, "--set", "seq_length=256", "--history-file", self.file]).stdout
        self.assertIn("of this model in other configurations", " ".join(other.split()))
        none = self.run_([*command, "--set", "num_layers=3", "--history-file", self.file]).stdout
        self.assertIn("no run of this configuration or model", " ".join(none.split()))

    def test_two_writers_and_killed_ones(self):
        """Two processes add runs at once; others are killed with kill -9 at any moment. What was said to be written is there."""
        first, done = self.record(), []
        draw = random.Random(3)
        for i in range(40):
            self.write("w%d" % i, [dict(first, run="w%d-%d" % (i, k), rank=0) for k in range(25)])

        def start(i):
            return subprocess.Popen([MEMTRACE, "history", "--file", self.file, "add", os.path.join(self.dir, "w%d" % i)],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

        for i in range(0, 40, 4):
            writers = [(i, start(i)), (i + 1, start(i + 1))]
            killed = [(i + 2, start(i + 2)), (i + 3, start(i + 3))]
            for _, p in killed:
                time.sleep(draw.random() * 0.02)
                p.send_signal(signal.SIGKILL)
            for name, p in writers + killed:
                out, err = p.communicate()
                if p.returncode == 0:
                    done.append(name)
                else:
                    self.assertEqual(p.returncode, -signal.SIGKILL, err)
            self.assertTrue(set(done) >= {i, i + 1})
        with sqlite3.connect(self.file) as db:
            self.assertEqual(db.execute("PRAGMA integrity_check").fetchone(), ("ok",))
            found = {row[0] for row in db.execute("SELECT run FROM runs")}
            orphans = db.execute("SELECT count(*) FROM components WHERE run NOT IN (SELECT id FROM runs)").fetchone()
        self.assertEqual(orphans, (0,))
        for i in range(40):
            there = {"w%d-%d" % (i, k) for k in range(25)} & found
            self.assertIn(len(there), (25,) if i in done else (0, 25), "a run of 25 is whole or not there")

    def test_other_files_are_refused_and_left_as_they_are(self):
        record = self.write("record", [self.record()])
        with sqlite3.connect(os.path.join(self.dir, "other.sqlite")) as db:
            db.execute("CREATE TABLE mine (a)")
        self.history("add", record)
        with open(self.file, "rb") as f:
            whole = f.read()
        files = {"text": b"not a database at all\n" * 100, "other.sqlite": None, "cut": whole[:len(whole) // 2],
                 "overwritten": whole[:4096] + b"\xff" * 8192 + whole[12288:], "newer": whole[:60] + (9).to_bytes(4, "big") + whole[64:]}
        said = {"text": "is no SQLite file", "other.sqlite": "another program's file", "newer": "has version 9"}
        for name, content in files.items():
            path = os.path.join(self.dir, name)
            if content is not None:
                with open(path, "wb") as f:
                    f.write(content)
            with open(path, "rb") as f:
                before = f.read()
            for words in ("add", record), ("list",):
                done = self.run_([MEMTRACE, "history", "--file", path, *words], status=2)
                self.assertIn(path, done.stderr)
                self.assertIn(said.get(name, "damaged"), done.stderr)
            with open(path, "rb") as f:
                self.assertEqual(f.read(), before)

    def test_an_empty_file(self):
        """To who asks it is no history yet, and stays empty; who adds makes one of it."""
        os.mkdir(os.path.dirname(self.file))
        open(self.file, "w").close()
        self.assertIn("there is no history in %s" % self.file, self.history("list", status=2).stderr)
        self.assertEqual(os.path.getsize(self.file), 0)
        self.history("add", self.write("record", [self.record()]))
        self.assertEqual(len(self.read("list")["runs"]), 1)

    def test_every_file_of_records_is_read(self):
        record = self.record()
        files = [self.write("records%d" % i, [dict(record, run="r%d" % i)]) for i in range(3)]
        self.history("add", *files)
        self.assertEqual({r["run"] for r in self.read("list")["runs"]}, {"r0", "r1", "r2"})

    def test_one_run_simulated_and_observed(self):
        """A job of Slurm that is simulated before it starts: both have the job's number as their run."""
        record = self.record()
        self.history("add", self.write("records", [dict(record, run="7", rank=rank, pid=rank + 1, simulated=kind) for rank in range(3)
                                                   for kind in (False, True)]))
        self.assertEqual(sorted((r["simulated"], r["ranks"]) for r in self.read("list")["runs"]), [(False, 3), (True, 3)])

    def test_hostile_records_and_rows(self):
        """Numbers at the ends of their range, control characters behind JSON's escapes, and a record without a run."""
        most, escape = 2**63 - 1, "\x1b[31m\x9b2J\n"
        texts = {"peak": {"by_category": {escape: 5}}, "config": {escape: escape}, "versions": {"torch": escape}}
        hostile = [dict(texts, memtrace_record=1, run="r%d" % i, device=0, end="exit", start_time_ns=sign * most, peak_allocated_bytes=sign * most,
                        peak_device_bytes=-sign * most, estimate={"allocated_bytes": 1, "by_component": {"weights": sign * most}})
                   for i, sign in enumerate((1, -1))]
        done = self.history("add", self.write("records", [{"memtrace_record": 1}, *hostile]))
        self.assertIn('records:1: the record has no text "run"', done.stderr)
        with sqlite3.connect(self.file) as db:
            db.execute("UPDATE runs SET config = '{}', versions = NULL, job = NULL WHERE id = 2")
            db.execute("INSERT INTO runs (id, restart, simulated, allocated_bytes) VALUES (9, -1, 0, ?)", (-most,))
        for words in ("list",), ("trend",), ("show", "1"), ("show", "9"), ("compare", "1", "2"), ("compare", "2", "9"):
            for more in (), ("--color", "always"), ("--json",):
                with self.subTest(words=words, more=more):
                    text = self.history(*more, *words).stdout
                    self.assertNotIn("\x1b[31m\x9b", text)
                    self.assertNotIn("\x1b[31m?", text)
        self.assertNotIn("\x1b", self.history("show", "1").stdout + self.history("compare", "1", "2").stdout)
        self.assertIn("there is no run", self.history("show", "none", status=2).stderr)

    def test_where_it_is(self):
        record = self.write("record", [self.record()])
        self.run_([MEMTRACE, "history", "add", record], XDG_DATA_HOME=self.dir + "/xdg")
        self.assertTrue(os.path.exists(self.dir + "/xdg/memtrace/history.sqlite"))
        self.run_([MEMTRACE, "history", "add", record], XDG_DATA_HOME="", HOME=self.dir)
        self.assertTrue(os.path.exists(self.dir + "/.local/share/memtrace/history.sqlite"))
        self.assertIn("history add creates it", self.history("list", status=2).stderr)
        self.assertFalse(os.path.exists(self.file))
        self.assertIn("did you mean trend", self.history("trnd", status=2).stderr)
        done = self.run_([MEMTRACE, "history", "--file", "/proc/none/history", "add", record], status=2)
        self.assertIn("--file names a file in a folder that may be written", done.stderr)
        self.assertIn("needs 2 runs", self.history("compare", "1", status=2).stderr)

    def test_options_of_one_action(self):
        """An option that an action would ignore is refused."""
        for option, words, of in (("--days", ("list",), "trend"), ("--days", ("add", "records"), "trend"), ("--run", ("trend",), "add"), ("--run", ("show", "1"), "add")):
            with self.subTest(option=option, words=words):
                done = self.history(option, "3", *words, status=2)
                self.assertEqual(done.stderr, "memtrace: %s is not for history %s; it is for history %s\n" % (option, words[0], of))


if __name__ == "__main__":
    unittest.main()
