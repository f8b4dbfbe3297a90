"""Runs memtrace match on real jobs on the simulated device: tables of docs/validation.md.

    python3 tests/match/match_runs.py shares DIRECTORY      how much of the peak has a term, over the jobs of accuracy_runs.py
    python3 tests/match/match_runs.py inferred DIRECTORY    how many inferred values are the declared ones, by key: those jobs, NEW and LATER
    python3 tests/match/match_runs.py wrong DIRECTORY       is the wrong value of WRONG and LATER_WRONG named?

A job that has no trace in DIRECTORY runs first. --only WORD: jobs whose name has it; --rows FILE: also the jobs of its rows, see accuracy.py;
--write: the section of docs/validation.md.
"""
import argparse
import collections
import json
import os
import shutil
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import JOBS, MEMTRACE, ROOT, environment, python, torchrun  # noqa: E402
from accuracy import read_rows  # noqa: E402
from accuracy_runs import COMMON, accuracy_jobs  # noqa: E402
from match_jobs import LATER, LATER_WRONG, NEW, WRONG  # noqa: E402

# Declared values that the job does not use (SGD and Megatron choose the implementation themselves), and values that no block depends on.
NOT_THE_JOBS = {"torch_version", "transformers_version", "megatron_core_version", "gpu", "data_parallel_size", "recompute_method", "recompute_num_layers",
                "ddp_bucket_cap_mb"}


def is_alone(job):
    """One process, without a launcher."""
    return job.get("world_size", 1) == 1 and job["framework"] != "megatron-core"


def simulate(traces, ranks, command):
    subprocess.run([MEMTRACE, "simulate", "-o", traces, "--gpu", COMMON["gpu"], "--gpus", str(ranks), "--", *command], env=environment(), check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=3600)


def record(directory, name, job):
    """The directory of the job's traces; the job runs if it does not exist."""
    place = os.path.join(directory, name)
    traces = os.path.join(place, "traces")
    if not os.path.exists(os.path.join(place, "out.0")):
        os.makedirs(place, exist_ok=True)
        path, out, ranks = os.path.join(place, "job.json"), os.path.join(place, "out"), job.get("world_size", 1)
        with open(path, "w") as f:
            json.dump(job, f)
        command = [os.path.join(JOBS, "declared.py"), path, out]
        simulate(traces, ranks, [python(), *command] if is_alone(job) else torchrun(ranks, *command))
    return traces


def record_alone(directory, jobs):
    """Runs all jobs of one process at once: they are forked from a process that has imported PyTorch."""
    left = {name: job for name, job in jobs.items() if is_alone(job) and not os.path.exists(os.path.join(directory, name, "out.0"))}
    if not left:
        return
    os.makedirs(directory, exist_ok=True)
    path, out, traces = (os.path.join(directory, "alone" + end) for end in (".json", "", ".traces"))
    with open(path, "w") as f:
        json.dump(list(left.values()), f)
    simulate(traces, 1, [python(), os.path.join(JOBS, "declared.py"), path, out])
    for i, (name, job) in enumerate(left.items()):
        place = os.path.join(directory, name)
        os.makedirs(place, exist_ok=True)
        with open(os.path.join(place, "job.json"), "w") as f:
            json.dump(job, f)
        shutil.rmtree(os.path.join(place, "traces"), ignore_errors=True)  # of an interrupted run
        os.rename("%s.%d" % (traces, i), os.path.join(place, "traces"))
        os.rename("%s.%d" % (out, i), os.path.join(place, "out.0"))


def match(traces, *options):
    done = subprocess.run([MEMTRACE, "match", "--json", "--tolerance", "10", *options, traces], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.stdout else print(done.stderr, file=sys.stderr)


def declared(directory, name):
    return "--config", os.path.join(directory, name, "job.json")


def assigned(rank):
    """Bytes of the peak that have a term; bytes with and without a term add up exactly, also in each component."""
    found = sum(term["observed_bytes"] for term in rank["terms"])
    assert found + sum(place["bytes"] for place in rank["unexplained"]) == rank["observed_bytes"], rank["unexplained"]
    for side in "observed_bytes", "estimated_bytes":
        assert sum(component[side] for component in rank["components"]) == rank[side], rank["components"]
    assert sum(term["estimated_bytes"] for term in rank["terms"]) == rank["estimated_bytes"]
    return found


def given(path):
    """Jobs of rows that are not part of the project, with their peaks."""
    rows = read_rows([path])
    return [("given: " + row["job"]["framework"], "given-%02d" % i, row["job"]) for i, row in enumerate(rows)]


def shares_of(directory, name, job):
    """(assigned share, missing share, error, name, named causes) of each rank."""
    ranks = match(record(directory, name, job), *declared(directory, name))["ranks"]
    assert len(ranks) == job.get("world_size", 1), name
    for rank in ranks:
        found = rank["observed_bytes"]
        yield assigned(rank) / found, sum(x["bytes"] for x in rank["missing"]) / found, abs(rank["error"]), name, rank["causes"]


def shares(options):
    """For every class, the mean and the smallest assigned share of any rank."""
    rows, worst = collections.defaultdict(list), []
    jobs = [entry for entry in [*accuracy_jobs(), *(given(options.rows) if options.rows else [])] if options.only in entry[1]]
    record_alone(options.directory, {name: job for _, name, job in jobs})
    for kind, name, job in jobs:
        found = list(shares_of(options.directory, name, job))
        rows[kind] += found
        worst += found
    lines = ["| class | jobs | ranks | assigned, mean | least | missing, most | the least is |", "|---|---|---|---|---|---|---|"]
    for kind, found in [*sorted(rows.items()), ("all", worst)]:
        least = min(found, key=lambda f: f[0])
        lines.append("| %s | %d | %d | %.3f %% | %.3f %% | %.3f %% | %s |" %
                     (kind, len({f[3] for f in found}), len(found), 100 * sum(f[0] for f in found) / len(found), 100 * least[0],
                      100 * max(f[1] for f in found), least[3]))
    return "\n".join(lines)


def same(key, a, b):
    a, b = str(a).lower(), str(b).lower()
    if key == "optimizer":
        a, b = a.replace("adamw", "adam"), b.replace("adamw", "adam")
    try:
        return float(a) == float(b)
    except ValueError:
        return a == b


def compare(found, job):
    """[(key, whether it is right; None: undetermined)] of the job's declared values that can be seen, and of other inferred values. A guess beside
    which another value is as near (ZeRO's stages 1 and 2 with one micro-batch) is undetermined."""
    inferred = {row["key"]: row for row in found["inferred"]}
    known = {row["key"] for row in found["given"]}
    for key, value in job.items():
        if key in NOT_THE_JOBS or key in known or (key == "optimizer_implementation" and (job["framework"] == "megatron-core" or job["optimizer"] == "sgd")):
            continue
        if key not in inferred or inferred[key]["evidence"].endswith("would be 0 B further off"):
            yield key, None, value, None
        else:
            yield key, same(key, inferred[key]["value"], value), value, inferred[key]


def inferred(options):
    tables = {"developed on": {name: job for _, name, job in accuracy_jobs() if "num_attention_heads" in job}, "new": NEW, "later": LATER}
    lines = []
    for title, jobs in tables.items():
        keys, sure, missed = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter), []
        jobs = {name: job for name, job in jobs.items() if options.only in name}
        record_alone(options.directory, jobs)
        for name, job in jobs.items():
            found = match(record(options.directory, name, job))
            if not found:
                missed.append("%s: nothing could be inferred" % name)
                continue
            for key, right, value, row in compare(found, job):
                keys[key][right] += 1
                if row:
                    sure[row["confidence"]][right] += 1
                if right is False:
                    missed.append("%s: %s is %s (%s), declared %s" % (name, key, row["value"], row["confidence"], value))
        lines += ["%s, %d jobs:" % (title, len(jobs)), "", "| key | right | wrong | cannot be told |", "|---|---|---|---|"]
        lines += ["| %s | %d | %d | %d |" % (key, n[True], n[False], n[None]) for key, n in sorted(keys.items())]
        lines += ["", ", ".join("%s: %d of %d right" % (k, n[True], sum(n.values())) for k, n in sorted(sure.items())), "", *missed, ""]
    return "\n".join(lines).rstrip()


def named_causes(directory, name, job, key, value):
    """(rank, the causes with the smallest gap) of the job declared with another value of `key`; None: without it and dependent keys."""
    stem = key.split("_")[0] + "_" if value is None else None
    path = os.path.join(directory, name, "wrong.json")
    with open(path, "w") as f:
        json.dump({k: v for k, v in job.items() if not (stem and k.startswith(stem))}, f)
    options = ("--set", "%s=%s" % (key, value)) if value else ()
    ranks = match(record(directory, name, job), "--config", path, *options)["ranks"]
    rank = next((r for r in ranks if r["causes"]), ranks[0])
    return rank, [cause for cause in rank["causes"] if cause["gap_bytes"] == rank["causes"][0]["gap_bytes"]]


def wrong(options):
    lines = []
    for jobs, table in (NEW, WRONG), (LATER, LATER_WRONG):
        right = count = tied = 0
        lines += ["| job | key | declared | is | named | gap, left |", "|---|---|---|---|---|---|"]
        for name, (key, value, values) in table.items():
            if options.only not in name:
                continue
            record(options.directory, name, jobs[name])
            rank, causes = named_causes(options.directory, name, jobs[name], key, value)
            cause = next((c for c in causes if c["key"] == key and c["value"] in values), None)
            good, cause = cause, cause or (causes or [None])[0]
            right, count, tied = right + bool(good), count + 1, tied + bool(good and len(causes) > 1)
            lines.append("| %s | %s | %s | %s | %s%s%s | %d, %s |" % (name, key, value or "not set", values[0], "" if good else "**wrong** ",
                                                                   "%(key)s=%(value)s" % cause if cause else "none",
                                                                   ", of %d" % len(causes) if len(causes) > 1 else "", rank["gap_bytes"],
                                                                   cause["gap_bytes"] if cause else "-"))
        lines += ["", "%d of %d are named, %d of them beside others that leave as little" % (right, count, tied), ""]
    return "\n".join(lines).rstrip()


TABLES = {"shares": (shares, "What match assigns", """`python3 tests/match/match_runs.py shares DIRECTORY --write`: the blocks at the peak that a term of our own estimate predicts, in bytes, for
the jobs of `tests/accuracy/accuracy_runs.py`, each rank by itself. Assigned and unassigned bytes add up to the peak, to the byte; so do components.
"given" are rows that are not part of the project (`--rows`). `tests/real/test_match_shares.py` says why three jobs are below 99 %."""),
          "inferred": (inferred, "What match infers", """`python3 tests/match/match_runs.py inferred DIRECTORY --write`: nothing is declared, and the inferred configuration is compared with that of
the job: the jobs of `tests/accuracy/accuracy_runs.py`, on which the inference was developed, and those of `tests/match/match_jobs.py`, written before they ran.
SGD's and Megatron's implementation of the optimizer are not counted, because those jobs declare one that they do not use."""),
          "wrong": (wrong, "Wrong declarations", """`python3 tests/match/match_runs.py wrong DIRECTORY --write`: one value of each of these jobs is declared wrongly, chosen before they ran.
"of N": N values leave the same small gap, and the right one is among them.""")}


def write(title, text):
    """Replaces a section of docs/validation.md, or adds it before the last one."""
    path = os.path.join(ROOT, "docs", "validation.md")
    with open(path) as f:
        sections = f.read().split("\n## ")
    new = "%s\n\n%s\n" % (title, text)
    at = next((i for i, section in enumerate(sections) if section.startswith(title + "\n")), None)
    if at is None:
        sections.insert(-1, new)
    else:
        sections[at] = new
    with open(path, "w") as f:
        f.write("\n## ".join(sections))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("table", choices=TABLES)
    parser.add_argument("directory")
    parser.add_argument("--only", default="")
    parser.add_argument("--rows")
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    make, title, about = TABLES[options.table]
    text = make(options)
    print(text)
    if options.write:
        write(title, about + "\n\n" + text)


if __name__ == "__main__":
    main()
