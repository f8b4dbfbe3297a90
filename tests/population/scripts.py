"""Whole scripts of tests/jobs/died, each with one mistake: runs each with it, without it (--fixed), and with it on a card between both peaks, and asks
memtrace for the cause.

scripts.py [--keep DIRECTORY] [--results FILE] [--write FILE] [--seed N] [--set SET] [NAME...]
scripts.py --judge DIRECTORY [NAME...]     asks the build anew about kept traces

causes.json of each folder of tests/jobs/died has the truth of each script: its kind, the cause in words, the rules that name it or whose remedy removes it, and
whether it takes more in each step ("grows"): then nothing tells what the step in which the job died needed more than the fixed job, and no saving is compared.
Rules that were not foreseen, and whose remedy removes the mistake as well, stand apart ("also"): an answer with one counts as wrong.
--write puts the table into FILE, in the place of the one that is there. --measured adds the rows of a first sight (--rows FILE, or those of this run)
to measured.json, as the set SET, and makes analyzer/diagnose/confidence.def anew.
"""
import argparse
import collections
import concurrent.futures
import glob
import json
import os
import queue
import random
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import confidence  # noqa: E402
from draw import ENOUGH, LARGE, ended_report, first_of, place_of_death  # noqa: E402
from harness import GiB, JOBS, PRELOAD, SIM, environment, python, torchrun  # noqa: E402

DIED = os.path.join(JOBS, "died")
# Rules that came after the truths were written, and the ones whose remedies they have: right where one of those is.
SAYS_THE_SAME = {"BUFFERS_LARGE": {"DATA_IN_SETUP"}, "LAYERS_STORED": {"HOOKS_STORE"},
                 "EVAL_MODE_GRAPH": {"INFERENCE_GRAPH", "EARLIER_CALL", "REFERENCE_GRAPH", "GRAPH_UNUSED"},
                 "FIRST_MODEL_GRAPH": {"EARLIER_CALL", "REFERENCE_GRAPH"},
                 "LOSS_NETWORK_GRAPH": {"EARLIER_CALL", "REFERENCE_GRAPH"},
                 "DOUBLE_FROM_THE_START": {"DOUBLE_PRECISION"},
                 "WIDE_LABELS": {"HUGE_TENSORS"},
                 "TEACHER_GRAPH": {"EARLIER_CALL", "REFERENCE_GRAPH", "FIRST_MODEL_GRAPH", "GRAPH_UNUSED", "CALL_UNUSED", "EVAL_MODE_GRAPH", "INFERENCE_GRAPH"},
                 "UNOPTIMIZED_GRAPH": {"EARLIER_CALL", "REFERENCE_GRAPH", "FIRST_MODEL_GRAPH", "GRADIENTS_UNUSED", "TEACHER_GRAPH", "EVAL_MODE_GRAPH", "INFERENCE_GRAPH"},
                 "LOSSES_OF_A_LOOP": {"LOSSES_SUMMED"},
                 "UNROLLED_GRAPH": {"EARLIER_CALL", "ROLLOUT_GRAPH", "LOSSES_SUMMED"},
                 "ROLLOUT_GRAPH": {"INFERENCE_GRAPH", "CALL_UNUSED", "GRAPH_UNUSED", "EVAL_GRAPH_KEPT"},
                 "GENERATOR_GRAPH": {"EARLIER_CALL", "REFERENCE_GRAPH", "FIRST_MODEL_GRAPH", "GRAPH_UNUSED", "CALL_UNUSED"}}
SETS = "first", "second", "third", "fourth", "fifth", "sixth", "seventh", "eighth", "ninth", "tenth", "eleventh", "twelfth", "thirteenth", "fourteenth", "fifteenth", "sixteenth", "seventeenth", "eighteenth", "nineteenth", "twentieth", "twentyfirst", "twentysecond", "twentythird", "twentyfourth", "twentyfifth", "twentysixth", "twentyseventh", "twentyeighth", "twentyninth", "thirtieth", "thirtyfirst", "thirtysecond", "thirtythird", "thirtyfourth", "thirtyfifth", "thirtysixth", "thirtyseventh", "thirtyeighth", "thirtyninth", "fortieth", "fortyfirst", "fortysecond"  # in the order in which they were written
LIMIT = 600  # seconds for a run
# Runs scripts as __main__, each in a forked child, and leaves what each needed, by PyTorch's own counters. A process of its own has one script only,
# as torchrun starts it. What is recorded does not go through it.
COUNTED = """import ctypes, json, os, runpy, sys, traceback
from unittest import mock
def count(out, script, *options):
    sys.argv, sys.path[0] = [script, *options], os.path.dirname(script)
    runpy.run_path(script, run_name="__main__")
    import torch
    free, total = torch.cuda.mem_get_info()
    reserved = torch.cuda.memory_reserved()
    with open("%s.%s" % (out, os.environ.get("RANK", "0")), "w") as f:
        json.dump({"allocated": torch.cuda.max_memory_allocated(), "reserved": torch.cuda.max_memory_reserved(), "outside": total - free - reserved}, f)
def child(output, *words):
    status = 1
    try:
        for n in 1, 2:
            os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND), n)
        os.chdir(os.path.dirname(output))
        count(*words)
        status = 0
    except BaseException:
        traceback.print_exc()
    sys.stderr.flush()
    ctypes.CDLL(None)._exit(status)
if sys.argv[1:]:
    count(*sys.argv[1:])
else:
    import torch
    with mock.patch("torch.cuda.get_device_capability", lambda *_: (9, 0)), mock.patch("torch._C._cuda_getDeviceCount", lambda: 1):
        import torch._dynamo, torchmetrics, lightning, diffusers, peft, transformers, trl
    for line in sys.stdin:
        pid = os.fork() or child(*json.loads(line))
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""
ENV = {"LD_PRELOAD": PRELOAD + " " + SIM, "OMP_NUM_THREADS": 1, "MEMTRACE_QUIET": 1, "CUDASIM_QUIET": 1, "TOKENIZERS_PARALLELISM": "false",
       "HF_HUB_OFFLINE": 1, "PYTHONWARNINGS": "ignore"}


def truths():
    """The truth of each script, with its file and its set, the folder that it is in."""
    table = {}
    for path in sorted(glob.glob(os.path.join(DIED, "*", "causes.json"))):
        folder = os.path.dirname(path)
        with open(path) as f:
            for name, truth in json.load(f).items():
                table[name] = {**truth, "set": os.path.basename(folder), "file": os.path.join(folder, name + ".py")}
    return table


def run(truth, arguments, directory, **settings):
    """The exit status; what the run printed is in DIRECTORY."""
    ranks = truth.get("ranks", 1)
    command = [python(), *arguments] if ranks == 1 else torchrun(ranks, *arguments)
    with open(os.path.join(directory, "output"), "a") as f:
        try:
            return subprocess.run(command, env=environment(**{**ENV, "CUDASIM_GPUS": ranks, **settings}), cwd=directory, stdout=f, stderr=f,
                                  timeout=LIMIT).returncode
        except subprocess.TimeoutExpired:
            return "timeout"


class Counter:
    """What scripts need on a card on which they have room."""

    def __init__(self):
        self.process = subprocess.Popen([python(), "-c", COUNTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL,
                                        env=environment(**{**ENV, "LD_PRELOAD": SIM, "CUDASIM_MEMORY": LARGE}))

    def needed(self, name, truth, directory, *options):
        """The counts of each rank, or None if the script failed."""
        out, script = os.path.join(directory, "counts"), truth["file"]
        if truth.get("ranks", 1) > 1:
            counted = os.path.join(directory, "counted.py")
            with open(counted, "w") as f:
                f.write(COUNTED)
            failed = run(truth, [counted, out, script, *options], directory, LD_PRELOAD=SIM, CUDASIM_MEMORY=LARGE)
        else:
            self.process.stdin.write(json.dumps([os.path.join(directory, "output"), out, script, *options]) + "\n")
            self.process.stdin.flush()
            failed = int(self.process.stdout.readline())
        counts = []
        for rank in range(0 if failed else truth.get("ranks", 1)):
            with open("%s.%d" % (out, rank)) as f:
                counts.append(json.load(f))
        return counts


def died(counter, name, truth, directory, seed):
    """Runs one script; the row without memtrace's answer."""
    shutil.rmtree(directory, ignore_errors=True)
    os.makedirs(directory)
    row = {"script": name, "cause": truth["cause"],
           "share": round(random.Random("%d %s" % (seed, name)).uniform(0.2, 0.8), 3)}
    twin, faulty = counter.needed(name, truth, directory, "--fixed"), counter.needed(name, truth, directory)
    if not twin or not faulty:
        return {**row, "outcome": "error", "error": "fixed failed" if not twin else "failed on the large card"}
    rank = max(range(len(twin)), key=lambda r: faulty[r]["outside"] + faulty[r]["allocated"])
    twin, faulty = twin[rank], faulty[rank]
    reserved, more = twin["reserved"], faulty["outside"] - twin["outside"] + faulty["allocated"]
    row.update(fixed_peak=twin["allocated"], fixed_reserved=reserved, faulty_peak=more)
    if more < ENOUGH * reserved:
        return {**row, "outcome": "too small"}
    row["card"] = int(twin["outside"] + reserved + row["share"] * (more - reserved)) >> 21 << 21
    status = run(truth, [truth["file"]], directory, MEMTRACE_DIR=os.path.join(directory, "traces"), CUDASIM_MEMORY=row["card"])
    return row if status not in (0, "timeout") else {**row, "outcome": "survived" if status == 0 else status}


def judged(row, truth, directory):
    """The row with memtrace's answer: "right", "wrong" or "unnamed"."""
    found = ended_report(os.path.join(directory, "traces"))
    first = first_of(found)
    if "error" in found:
        return {**row, "outcome": "error", "error": found["error"].strip()}
    row.update(place_of_death(found), findings=[f["rule"] for f in found["findings"]])
    if not first:
        return {**row, "outcome": "unnamed"}
    remedy = first["remedies"][0] if first["remedies"] else {}
    least = remedy["saving_bound_bytes"] if remedy.get("saving_bound") == "at least" else None
    names = {first["rule"], *SAYS_THE_SAME.get(first["rule"], ())}
    row.update(outcome="right" if names & set(truth["right"]) else "wrong", rule=first["rule"], confidence=first["confidence"])
    row.update(also=first["rule"] in truth.get("also", ()))
    row.update(message=first["message"], remedies=[r["action"] for r in first["remedies"]], saving=remedy.get("saving_bytes"), least=least,
               truly=None if truth.get("grows") else row["faulty_peak"] - row["fixed_peak"])
    return row


def one(counters, name, truth, keep, again, seed):
    directory = os.path.join(keep, name)
    kept = os.path.join(directory, "row.json")
    if again:
        with open(kept) as f:
            row = json.load(f)
    else:
        counter = counters.get()
        try:
            row = died(counter, name, truth, directory, seed)
        except Exception:  # the counter may have ended; the other scripts have one of their own
            counter.process.kill()
            counter = Counter()
            raise
        finally:
            counters.put(counter)
        with open(kept, "w") as f:
            json.dump(row, f)
    return row if "outcome" in row else judged(row, truth, directory)


def line(row):
    told = row.get("saving") or row.get("least")
    said = "%s%.2f of %.2f GiB" % ("" if row["saving"] else ">= ", told / GiB, row["truly"] / GiB) if told and row["truly"] else ""
    return "%-22s %-9s %-22s %-7s %-20s %s" % (
        row["script"], row["outcome"], row.get("rule", ""), row.get("confidence", row.get("error", "")), said, row["cause"])


def summary(rows):
    counted = [r for r in rows if r["outcome"] in ("right", "wrong", "unnamed")]
    right = [r for r in counted if r["outcome"] == "right"]
    wrong = [r for r in counted if r["outcome"] == "wrong"]
    savings = [r for r in right if r.get("saving") and r.get("truly")]
    near = [r for r in savings if abs(r["saving"] - r["truly"]) <= 0.1 * r["truly"]]
    least = [r for r in right if r.get("least") and r.get("truly")]
    kept = [r for r in least if r["least"] <= 1.1 * r["truly"]]
    words = "%d of %d right, %d wrong (%d of them with high confidence, %d with a remedy that helps), %d unnamed; "
    words += "saving within 10 %% in %d of %d, at least that much in %d of %d"
    return words % (len(right), len(counted), len(wrong), sum(r["confidence"] == "high" for r in wrong), sum(r["also"] for r in wrong),
                    len(counted) - len(right) - len(wrong), len(near), len(savings), len(kept), len(least))


def written(path, rows, truth):
    """Puts the table of the sets into the file at PATH."""
    counts = collections.defaultdict(collections.Counter)
    for row in rows:
        high, helps = row.get("confidence") == "high", row.get("also")
        words = [word for word, said in (("high", high), ("helps", helps)) if said and row["outcome"] == "wrong"]
        for name in truth[row["script"]]["set"], "all":
            counts[name].update([row["outcome"], *words])
    columns = "right", "wrong", "high", "helps", "unnamed"
    lines = ["| set | scripts | right | wrong | of these, high confidence | of these, a remedy that helps | unnamed |", "|---|---|---|---|---|---|---|"]
    for name in [*sorted((k for k in counts if k != "all"), key=SETS.index), "all"]:
        n = counts[name]
        lines.append("| %s | %d | %s |" % (name, n["right"] + n["wrong"] + n["unnamed"], " | ".join(str(n[c]) for c in columns)))
    from table import put_table
    put_table(os.path.abspath(path), lines)


def measured(name, rows):
    import table
    confidence.keep(name, table.counts_of_rules([r for r in rows if r["outcome"] in table.COUNTED]))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--keep", help="directory for the traces")
    parser.add_argument("--judge", metavar="DIRECTORY", help="directory of kept traces, about which to ask again")
    parser.add_argument("--results", help="file to add the rows to, a line of JSON each")
    parser.add_argument("--write", metavar="FILE", help="Markdown file whose table of scripts is made anew")
    parser.add_argument("--measured", metavar="SET", help="the name of the set of measured.json to which the rows are added")
    parser.add_argument("--rows", metavar="FILE", help="rows of an earlier run, with --measured")
    parser.add_argument("--set", help="only the scripts of this folder of tests/jobs/died")
    parser.add_argument("--seed", type=int, default=18, help="of the cards' sizes")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    table, rows = truths(), []
    if options.rows and not options.measured:
        parser.error("--rows is for --measured")
    if options.rows:
        with open(options.rows) as f:
            measured(options.measured, list(map(json.loads, f)))
        return
    names = options.names or sorted(n for n in table if options.set in (None, table[n]["set"]))
    counters = queue.Queue()
    with tempfile.TemporaryDirectory() as scratch, concurrent.futures.ThreadPoolExecutor(options.workers) as pool:
        keep = os.path.abspath(options.judge or options.keep or scratch)
        if options.judge:
            names = [n for n in names if os.path.exists(os.path.join(keep, n, "row.json"))]
        for _ in range(0 if options.judge else options.workers):
            counters.put(Counter())
        for done in concurrent.futures.as_completed([pool.submit(one, counters, n, table[n], keep, options.judge, options.seed) for n in names]):
            row = done.result()
            rows.append(row)
            print(line(row), flush=True)
            if options.results:
                with open(options.results, "a") as f:
                    f.write(json.dumps(row) + "\n")
    while not counters.empty():
        counters.get().process.stdin.close()
    print(summary(rows))
    if options.measured:
        measured(options.measured, rows)
    if options.write:
        written(options.write, rows, table)


if __name__ == "__main__":
    main()
