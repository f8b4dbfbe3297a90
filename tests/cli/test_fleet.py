"""examples/fleet: DuckDB's answers equal those of plain Python, from records and from Parquet, and Spark's equal DuckDB's."""
import collections
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import unittest

from harness import BUILD, MEMTRACE, ROOT, Case

FLEET = os.path.join(ROOT, "examples", "fleet")
DAY_NS = 86400 * 10**9


def site(script):
    found = subprocess.run([os.path.join(ROOT, "tests", script)], check=True, stdout=subprocess.PIPE, text=True)
    return os.path.join(found.stdout.strip(), "site")


def deviation(values, middle):
    return statistics.median(abs(v - middle) for v in values)


def grouped(records, key):
    groups = collections.defaultdict(list)
    for r in records:
        groups[key(r)].append(r)
    return groups


def restart(r):
    return -1 if r["restart"] is None else r["restart"]


def needed(r):
    return r["estimate"]["allocated_bytes"] if r["estimate"] else -1


def worst_ranks(records):
    rows = sorted(records, key=lambda r: (-r["peak_allocated_bytes"], r["run"], restart(r), r["rank"], r["device"], r["host"]))[:20]
    return [{"run": r["run"], "restart": restart(r), "rank": r["rank"], "device": r["device"], "host": r["host"],
             "peak_allocated_bytes": r["peak_allocated_bytes"], "oom_count": r["oom_count"], "verdict": r["verdict"] or ""} for r in rows]


def outliers(records):
    found = []
    for (run, attempt, _), ranks in grouped(records, lambda r: (r["run"], restart(r), needed(r))).items():
        values = [r["peak_allocated_bytes"] for r in ranks]
        middle = statistics.median(values)
        spread = deviation(values, middle)
        for r in ranks:
            distance = abs(r["peak_allocated_bytes"] - middle)
            if distance > 5 * spread and distance > middle / 100 and distance > 2 << 20:
                found.append({"run": run, "restart": attempt, "rank": r["rank"], "device": r["device"],
                              "peak_allocated_bytes": r["peak_allocated_bytes"], "median_bytes": middle, "deviation_bytes": spread})
    return sorted(found, key=lambda o: (o["run"], o["restart"], o["rank"], o["device"]))


def trend_by_job(records):
    days = collections.defaultdict(list)
    for (name, simulated, _, _), ranks in grouped(
            records, lambda r: (r["config_fingerprint"], r["simulated"], r["run"], restart(r))).items():
        days[name, simulated, min(r["start_time_ns"] for r in ranks) // DAY_NS].append(ranks)
    return [{"config_fingerprint": name, "simulated": simulated, "day": day, "runs": len(runs),
             "median_bytes": statistics.median(max(r["peak_allocated_bytes"] for r in ranks) for ranks in runs),
             "most_bytes": max(r["peak_allocated_bytes"] for ranks in runs for r in ranks),
             "runs_out_of_memory": sum(any(r["oom_count"] for r in ranks) for ranks in runs)}
            for (name, simulated, day), runs in sorted(days.items())]


def prediction_error_by_model(records):
    known = [r for r in records if needed(r) > 0 and r["peak_allocated_bytes"] > 0 and not r["oom_count"]]
    found = []
    for model, ranks in sorted(grouped(known, lambda r: r["model"] or "").items()):
        errors = [r["peak_allocated_bytes"] / needed(r) - 1 for r in ranks]
        middle = statistics.median(errors)
        found.append({"model": model, "ranks": len(ranks), "median_error": middle, "deviation": deviation(errors, middle),
                      "least": min(errors), "most": max(errors)})
    return found


IN_PYTHON = {f.__name__: f for f in (worst_ranks, outliers, trend_by_job, prediction_error_by_model)}


class Fleet(Case):
    def setUp(self):
        """Records of five jobs in two weeks, made of the ranks of one: peaks, days, estimates and failures that are drawn."""
        super().setUp()
        os.mkdir(self.traces)
        subprocess.run([os.path.join(BUILD, "bench", "make_job"), self.traces, "16", "300"], check=True)
        real = [json.loads(line) for line in self.run_([MEMTRACE, "summarize", self.traces]).stdout.splitlines()]
        draw, self.records = random.Random(5), []
        for run in range(16):
            for r in real:
                estimate = {"system": "memtrace", "allocated_bytes": (4 + r["rank"] // 8) << 30, "reserved_bytes": None, "device_bytes": None}
                self.records.append(dict(
                    r, run="run%d" % run, restart=draw.choice((None, 0)) if run % 5 == 0 else 1, config_fingerprint="job%d" % (run % 5),
                    model=None if run % 5 == 4 else "model %d" % (run % 3), simulated=run % 4 == 0, start_time_ns=1795000000 * 10**9 + run * DAY_NS // 3,
                    estimate=None if run % 7 == 6 else estimate, oom_count=int(run == 3 and r["rank"] == 5), verdict="LEAK" if run == 3 else None,
                    peak_allocated_bytes=((4 + r["rank"] // 8) << 30) + draw.randrange(1 << 20) + (300 << 20 if (run, r["rank"]) == (7, 11) else 0)))
        draw.shuffle(self.records)
        self.file = os.path.join(self.dir, "records.ndjson")
        with open(self.file, "w") as f:
            f.writelines(json.dumps(r) + "\n" for r in self.records)

    def ask(self, script, *arguments, env):
        done = self.run_([sys.executable, os.path.join(FLEET, script), *arguments], PYTHONPATH=site(env), PYTHONDONTWRITEBYTECODE=1)
        return json.loads(done.stdout)

    def check(self, found, expected):
        self.assertEqual(set(found), set(IN_PYTHON))
        for name, rows in expected.items():
            self.assertEqual(len(found[name]), len(rows), name)
            for a, b in zip(found[name], rows):
                self.assertEqual(set(a), set(b))
                for key in a:
                    if isinstance(b[key], float):
                        self.assertAlmostEqual(a[key], b[key], delta=1e-12 * max(1, abs(b[key])))
                    else:
                        self.assertEqual(a[key], b[key], (name, key))

    def test_duckdb_equals_python(self):
        expected = {name: f(self.records) for name, f in IN_PYTHON.items()}
        self.assertEqual([(o["run"], o["rank"]) for o in expected["outliers"]], [("run7", 11)])
        self.assertTrue(all(expected.values()))
        parquet = os.path.join(self.dir, "records.parquet")
        self.check(self.ask("duckdb_fleet.py", self.file, "--parquet", parquet, env="export-env.sh"), expected)
        self.check(self.ask("duckdb_fleet.py", parquet, env="export-env.sh"), expected)

    @unittest.skipUnless(os.environ.get("ALL_JOBS"), "make test-all")
    @unittest.skipUnless(shutil.which("java"), "Apache Spark needs Java: apt-get install default-jre-headless")
    def test_spark_equals_duckdb(self):
        duckdb = self.ask("duckdb_fleet.py", self.file, env="export-env.sh")
        self.check(self.ask("spark_fleet.py", self.file, "--master", "local-cluster[2,1,1024]", env="spark-env.sh"), duckdb)


if __name__ == "__main__":
    unittest.main()
