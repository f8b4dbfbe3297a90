"""What `report --whole-need` says that the first remedy saves, against the peaks of the script with and without its mistake.

whole_needs.py DIRECTORY [--sample N] [--seed N] [--results FILE]

DIRECTORY has the traces that scripts.py --keep left, of jobs that can run again from where they lie. It asks about right findings whose report of the
failure alone has no number for the whole job; not about a smaller batch, of which the fixed form has another one than the remedy. It prints a line for each
script that is off, and a table by rules.
"""
import argparse
import collections
import concurrent.futures
import json
import os
import random
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import scripts  # noqa: E402
from harness import MEMTRACE, MiB, environment  # noqa: E402

HALVES = "ACT_PEAK", "INFERENCE_BATCH"


def asked(directory, truth, options):
    """The rows of kept scripts that count: alone on a device, and the mistake takes no more in each step."""
    rows = []
    for name in sorted(truth):
        path = os.path.join(directory, name, "row.json")
        if truth[name].get("grows") or truth[name].get("ranks", 1) > 1 or not os.path.exists(path):
            continue
        with open(path) as f:
            row = scripts.judged(json.load(f), truth[name], os.path.dirname(path))
        if row["outcome"] == "right" and not row["saving"] and row["rule"] not in HALVES:
            rows.append(row)
    random.Random(options.seed).shuffle(rows)
    return rows[:options.sample]


def measured(row, directory):
    """The row with the number of the first remedy that is said of the whole job ("about"), or the bound ("at least"), and what the run needed."""
    with tempfile.TemporaryDirectory() as scratch:
        run = subprocess.run([MEMTRACE, "report", "--json", "--whole-need", os.path.join(directory, row["script"], "traces")],
                             env=environment(TMPDIR=scratch, MEMTRACE_QUIET=1), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    if run.returncode not in (0, 1):
        return {**row, "error": run.stderr.strip()[-200:]}
    report = json.loads(run.stdout)
    first = report["findings"][0]["remedies"][0]
    return {**row, "about": first.get("saving_bytes"),
            "bound": first["saving_bound_bytes"] if first.get("saving_bound") == "at least" else None,
            "need": (report["ranks"][0]["need"] or {}).get("whole_step_bytes")}


def is_near(row):
    return bool(row["about"]) and abs(row["about"] - row["truly"]) <= 0.1 * row["truly"]


def holds(row):
    """Is the bound that is said in place of a number no more than what is saved?"""
    return not row["about"] and bool(row["bound"]) and row["bound"] <= 1.1 * row["truly"]


def table(rows):
    counts = collections.defaultdict(collections.Counter)
    for r in rows:
        for name in r["rule"], "all":
            bounded = not r["about"] and bool(r["bound"])
            counts[name].update({"asked": 1, "about": int(bool(r["about"])), "near": int(is_near(r)), "bound": int(bounded),
                                 "holds": int(holds(r))})
    lines = ["| rule | scripts | a number | within 10 % | at least | holds |", "|---|---|---|---|---|---|"]
    for name, n in sorted(counts.items(), key=lambda x: (x[0] == "all", -x[1]["asked"], x[0])):
        lines.append("| %s | %s |" % (name, " | ".join(str(n[k]) for k in ("asked", "about", "near", "bound", "holds"))))
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("directory")
    parser.add_argument("--sample", type=int, help="ask about so many scripts, drawn at random")
    parser.add_argument("--seed", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--results", help="file to add the rows to, a line of JSON each")
    options = parser.parse_args()
    rows = []
    with concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        for row in pool.map(lambda r: measured(r, options.directory), asked(options.directory, scripts.truths(), options)):
            if options.results:
                with open(options.results, "a") as f:
                    f.write(json.dumps(row) + "\n")
            if "error" in row:
                print("%-26s %-20s error: %s" % (row["script"], row["rule"], row["error"]), flush=True)
                continue
            rows.append(row)
            said = row["about"] or row["bound"]
            if not is_near(row) and not holds(row):
                print("%-26s %-20s %s of %d MiB, need %s of %d  %s" % (
                    row["script"], row["rule"], "nothing" if not said else "%s%d" % ("" if row["about"] else "at least ", said // MiB), row["truly"] // MiB,
                    row["need"] and row["need"] // MiB, row["faulty_peak"] // MiB, row["cause"]), flush=True)
    print(table(rows))


if __name__ == "__main__":
    main()
