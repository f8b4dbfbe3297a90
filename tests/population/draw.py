"""Draws jobs with faults, runs each with the fault, without it, and with it on a card between both peaks, and asks memtrace for the cause.

draw.py [--draws N] [--seed S] [--jobs NAME,...] [--faults NAME,...] [--families NAME,...] [--keep DIRECTORY] [--results FILE]
draw.py --sample FILE [--modules NAME,...]     the draws of a file, a line of JSON each
"""
import argparse
import json
import os
import queue
import random
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import core  # noqa: E402
from causes import CAUSES, REMEDIES  # noqa: E402
from harness import MEMTRACE, PRELOAD, SIM, environment, python  # noqa: E402

MODULES = sorted(name[:-3] for name in os.listdir(HERE) if name.startswith(("jobs_", "faults_")))
LARGE = 2 << 40  # bytes: a card on which every job has room
ENOUGH = 1.08  # what the fault must need, against all that the fixed job reserves


class Server:
    """A process that has imported everything and forks a child for each job."""

    def __init__(self, modules):
        self.process = subprocess.Popen([python(), os.path.join(HERE, "serve.py"), *modules], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                                        env=environment(LD_PRELOAD=PRELOAD + " " + SIM, OMP_NUM_THREADS="1", MEMTRACE_QUIET="1", CUDASIM_QUIET="1"))

    def run(self, draw, fixed, out, **env):
        ask = {"job": draw["job"], "fault": draw["fault"], "seed": draw["seed"], "fixed": fixed, "out": out, "env": {k: str(v) for k, v in env.items()}}
        self.process.stdin.write(json.dumps(ask) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def close(self):
        self.process.stdin.close()
        self.process.wait()


def report(directory):
    done = subprocess.run([MEMTRACE, "report", "--json", directory], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.returncode == 0 else {"findings": [], "error": done.stderr}


def ended_report(directory):
    """The report once the writer, a process that outlives the job, is through."""
    for _ in range(100):
        found = report(directory)
        if not any(rank["end"] == "running" for rank in found.get("ranks", ())):
            break
        time.sleep(0.1)
    return found


def first_of(found):
    return next((f for f in found["findings"] if f["severity"] != "note"), None)


def tried(server, draw, directory):
    """The draw with what came of it: "outcome" is "right", "wrong" or "unnamed", or why the draw does not count."""
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, "%s.json")
    twin = server.run(draw, True, path % "fixed", MEMTRACE_DISABLE=1, CUDASIM_MEMORY=LARGE)
    faulty = server.run(draw, False, path % "faulty", MEMTRACE_DISABLE=1, CUDASIM_MEMORY=LARGE)
    for name, one in ("fixed", twin), ("faulty", faulty):
        if one.get("error") or one["died"]:
            return {**draw, "outcome": "error", "error": "%s: %s" % (name, one.get("error") or "died")}
    reserved = twin["reserved"]
    more = faulty["outside"] - twin["outside"] + faulty["allocated"]  # beside what the fixed job has outside of PyTorch
    draw = {**draw, "fixed_peak": twin["allocated"], "faulty_peak": more, "faulty_by_step": [n - twin["outside"] for n in faulty["by_step"]]}
    if core.FAULTS[draw["fault"]].own_limit:
        more = 2 * reserved
    if more < ENOUGH * reserved:
        return {**draw, "outcome": "too small"}
    draw["card"] = int(twin["outside"] + reserved + draw["share"] * (more - reserved)) >> 21 << 21
    traces = os.path.join(directory, "traces")
    died = server.run(draw, False, path % "died", MEMTRACE_DIR=traces, CUDASIM_MEMORY=draw["card"])
    if died.get("error"):
        return {**draw, "outcome": "error", "error": died["error"]}
    if not died["died"]:
        return {**draw, "outcome": "survived"}
    return {**draw, **judged(draw, ended_report(traces))}


def judged(draw, found):
    """What memtrace says, against the truth of the draw."""
    first = first_of(found)
    if "error" in found:
        return {"outcome": "error", "error": found["error"]}
    if not first:
        return {"outcome": "unnamed"}
    remedy = next((r for r in first["remedies"] if (r.get("saving_bytes") or r.get("saving_bound")) and is_fixed_form(draw, r["action"])), {})
    return {"outcome": "right" if first["rule"] in CAUSES[draw["cause"]] else "wrong", "rule": first["rule"], "confidence": first["confidence"],
            "saving": remedy.get("saving_bytes"), "bound": [remedy["saving_bound"], remedy["saving_bound_bytes"]] if "saving_bound" in remedy else None,
            **place_of_death(found), "findings": [f["rule"] for f in found["findings"]]}


def is_fixed_form(draw, action):
    """Does the fixed job do what a remedy says? Half of a batch is a remedy of its own, which says nothing of others."""
    word = REMEDIES.get(draw["cause"], "")
    return word is not None and word in action and (word == "half" or "half the micro-batch" not in action)


def place_of_death(found):
    """The step, from 1, or None for a job without steps; and the level that the job had reached, with what it asked for.

    It is the failure that ended the job, or the last one: cuDNN goes on with its next plan if there is no room for one, several steps before that.
    """
    failures = [(not oom["survived"], n, rank, oom) for rank in found["ranks"] for n, oom in enumerate(rank["oom"])]
    if not failures:
        return {"step": None, "level": None}
    *_, rank, oom = max(failures, key=lambda f: f[:2])
    return {"step": None if rank["inference"] else oom["step"], "level": oom["allocated_bytes"] + oom["requested_bytes"]}


def drawn(options):
    """The draws: all from the seed, so that a draw can be repeated alone."""
    rng = random.Random(options.seed)
    jobs = {n: j for n, j in core.JOBS.items() if (not options.jobs or n in options.jobs) and (not options.families or j.family in options.families)}
    faults = {n: f for n, f in core.FAULTS.items() if not options.faults or n in options.faults}
    pairs = [(j, f) for j in jobs for f in faults if faults[f](0).fits(jobs[j](0))]
    if not pairs:
        sys.exit("draw.py: no job fits a fault")
    deck = []
    for n in range(options.draws):
        if not deck:  # every fault once, then again, each with a job that it fits
            deck = sorted({f for _, f in pairs})
            rng.shuffle(deck)
        name = deck.pop()
        base = rng.choice([j for j, f in pairs if f == name])
        yield {"job": base, "family": jobs[base].family, "fault": name, "fault_group": faults[name].group, "cause": faults[name].cause, "seed": rng.randrange(1 << 30),
               "share": round(rng.uniform(0.2, 0.9), 3)}


def listed(name):
    with open(name) as f:
        return [json.loads(line) for line in f]


def run_all(draws, directory, modules, workers, done):
    """Calls done(result) for each draw; `workers` servers at once."""
    todo, lock = queue.Queue(), threading.Lock()
    for n, draw in enumerate(draws):
        todo.put((n, draw))

    def work():
        server = Server(modules)
        try:
            while True:
                n, draw = todo.get_nowait()
                result = tried(server, draw, os.path.join(directory, "%04d" % n))
                with lock:
                    done({"draw": n, **result})
        except queue.Empty:
            pass
        finally:
            server.close()
    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def names(text):
    return set(text.split(",")) if text else set()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--draws", type=int, default=40)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=2)
    for option in "jobs", "faults", "families", "modules":
        parser.add_argument("--" + option, type=names)
    parser.add_argument("--sample", help="file of draws to run as they are")
    parser.add_argument("--keep", help="directory for the traces")
    parser.add_argument("--results", help="file to add the results to, a line of JSON each")
    options = parser.parse_args()
    results = []

    def done(result):
        results.append(result)
        print("%4d %-9s %-24s %-24s %-24s %s" % (result["draw"], result["outcome"], result["job"], result["fault"], result.get("rule", ""),
                                                 result.get("confidence", result.get("error", "").strip().split("\n")[-1][:150])), flush=True)
        if options.results:
            with open(options.results, "a") as f:
                f.write(json.dumps(result) + "\n")
    modules = sorted(options.modules or MODULES)
    core.load(modules)
    draws = listed(options.sample) if options.sample else list(drawn(options))
    with tempfile.TemporaryDirectory() as directory:
        run_all(draws, options.keep or directory, modules, options.workers, done)
    counted = [r for r in results if r["outcome"] in ("right", "wrong", "unnamed")]
    print("%d of %d right" % (sum(r["outcome"] == "right" for r in counted), len(counted)))


if __name__ == "__main__":
    main()
