"""What memtrace match makes of real jobs on the simulated device: tables of docs/validation.md.

    python3 tests/match_runs.py DIRECTORY shares      how much of the peak has a term, over the jobs of accuracy_runs.py
    python3 tests/match_runs.py DIRECTORY inferred    how many inferred values are the declared ones, by key: those jobs, and NEW
    python3 tests/match_runs.py DIRECTORY wrong       is the wrong value of WRONG named?

A job that has no trace in DIRECTORY runs first. A further argument: only jobs whose name has it.
"""
import collections
import json
import os
import subprocess
import sys

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from accuracy_runs import COMMON, accuracy_jobs  # noqa: E402
from harness import JOBS, MEMTRACE, environment, python, torchrun  # noqa: E402
from match_jobs import LATER, LATER_WRONG, NEW, WRONG  # noqa: E402

# Declared, and not what ran: SGD and Megatron choose the implementation by themselves. And what no block depends on.
NOT_THE_JOBS = {"torch_version", "transformers_version", "megatron_core_version", "gpu", "data_parallel_size", "recompute_method", "recompute_num_layers",
                "ddp_bucket_cap_mb"}


def is_alone(job):
    """One process, without a launcher."""
    return job.get("world_size", 1) == 1 and job["framework"] != "megatron-core"


def simulate(traces, ranks, command):
    subprocess.run([MEMTRACE, "simulate", "-o", traces, "--gpu", COMMON["gpu"], "--gpus", str(ranks), "--", *command], env=environment(), check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=3600)


def record(directory, name, job):
    """The directory of the job's traces, made where it is not there."""
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
    """The same for all of one process at once: they are forked from one that has imported PyTorch."""
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
        os.rename("%s.%d" % (traces, i), os.path.join(place, "traces"))
        os.rename("%s.%d" % (out, i), os.path.join(place, "out.0"))


def match(traces, *options):
    done = subprocess.run([MEMTRACE, "match", "--json", "--tolerance", "10", *options, traces], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    return json.loads(done.stdout) if done.stdout else print(done.stderr, file=sys.stderr)


def declared(directory, name):
    return "--config", os.path.join(directory, name, "job.json")


def shares(directory, wanted):
    """Of every class the least assigned share of any rank."""
    rows = collections.defaultdict(list)
    for kind, name, job in accuracy_jobs():
        if wanted in name:
            for rank in match(record(directory, name, job), *declared(directory, name))["ranks"]:
                assigned, found = sum(t["observed_bytes"] for t in rank["terms"]), rank["observed_bytes"]
                assert assigned + sum(u["bytes"] for u in rank["unexplained"]) == found, name
                rows[kind].append((assigned / found, sum(x["bytes"] for x in rank["missing"]) / found, name))
    print("| class | ranks | assigned, mean | least | missing, most | the least is |\n|---|---|---|---|---|---|")
    for kind, found in sorted(rows.items()):
        least = min(found)
        print("| %s | %d | %.3f %% | %.3f %% | %.3f %% | %s |" % (kind, len(found), 100 * sum(f[0] for f in found) / len(found), 100 * least[0],
                                                                100 * max(f[1] for f in found), least[2]))


def same(key, a, b):
    a, b = str(a).lower(), str(b).lower()
    if key == "optimizer":
        a, b = a.replace("adamw", "adam"), b.replace("adamw", "adam")
    try:
        return float(a) == float(b)
    except ValueError:
        return a == b


def compare(found, job):
    """[(key, is it right?, None: not told)] of what the job declares and could be seen, and what was inferred beyond it."""
    inferred = {row["key"]: row for row in found["inferred"]}
    known = {row["key"] for row in found["given"]}
    for key, value in job.items():
        if key in NOT_THE_JOBS or key in known or (key == "optimizer_implementation" and (job["framework"] == "megatron-core" or job["optimizer"] == "sgd")):
            continue
        if key not in inferred:
            yield key, None, value, None
        else:
            yield key, same(key, inferred[key]["value"], value), value, inferred[key]


def inferred(directory, wanted):
    tables = {"developed on": {name: job for _, name, job in accuracy_jobs() if "num_attention_heads" in job}, "new": NEW}
    for title, jobs in tables.items():
        keys, sure, count = collections.defaultdict(collections.Counter), collections.defaultdict(collections.Counter), 0
        for name, job in jobs.items():
            if wanted not in name:
                continue
            found = match(record(directory, name, job))
            count += 1
            if not found:
                print("%s: nothing could be inferred" % name)
                continue
            for key, right, value, row in compare(found, job):
                keys[key][right] += 1
                if row:
                    sure[row["confidence"]][right] += 1
                if right is False:
                    print("%s: %s is %s (%s), declared %s" % (name, key, row["value"], row["confidence"], value))
        print("\n%s, %d jobs\n\n| key | right | wrong | cannot be told |\n|---|---|---|---|" % (title, count))
        for key, n in sorted(keys.items()):
            print("| %s | %d | %d | %d |" % (key, n[True], n[False], n[None]))
        print("\n" + ", ".join("%s: %d of %d right" % (k, n[True], sum(n.values())) for k, n in sorted(sure.items())) + "\n")


def wrong(directory, wanted):
    right = count = 0
    print("| job | key | declared | is | named | gap, left |\n|---|---|---|---|---|---|")
    for name, (key, value, values) in WRONG.items():
        if wanted not in name:
            continue
        traces = record(directory, name, NEW[name])
        job = {k: v for k, v in NEW[name].items() if not (value is None and k.startswith(key.split("_")[0] + "_"))}
        path = os.path.join(directory, name, "wrong.json")
        with open(path, "w") as f:
            json.dump(job, f)
        options = ("--set", "%s=%s" % (key, value)) if value else ()
        ranks = match(traces, "--config", path, *options)["ranks"]
        rank = next((r for r in ranks if r["causes"]), ranks[0])
        named = rank["causes"][0] if rank["causes"] else {"key": "-", "value": "-", "gap_bytes": 0}
        good = named["key"] == key and named["value"] in values
        right, count = right + good, count + 1
        print("| %s | %s | %s | %s | %s%s=%s | %d, %d |" % (name, key, value, values[0], "" if good else "**wrong** ", named["key"], named["value"],
                                                        rank["gap_bytes"], named["gap_bytes"]))
    print("\n%d of %d" % (right, count))


if __name__ == "__main__":
    {"shares": shares, "inferred": inferred, "wrong": wrong}[sys.argv[2]](sys.argv[1], sys.argv[3] if len(sys.argv) > 3 else "")
