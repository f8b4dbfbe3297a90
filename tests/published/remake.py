"""Runs the published jobs on the simulated device, and writes what they took to tests/published/results/

    python3 tests/published/remake.py [--again] [--estimates] [SOURCE...]

A source is a file of tests/published/sources/. It has its address, the versions, and its runs: a script of jobs/ (or one that starts the
publisher's own, from PUBLISHED_CHECKOUTS/NAME, which nothing here downloads) and the rows that others published for it. PyTorch is that of
tests/python-env.sh; packages go to a folder of their own in ~/.cache/memtrace/published. A run that is newer than the build and its script is kept. --estimates estimates the jobs again
and keeps what they took. liger, smi and modded_nanogpt are scripts of their own.
"""
import argparse
import hashlib
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
MEMTRACE = os.environ.get("MEMTRACE", os.path.join(ROOT, "build", "memtrace"))
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "memtrace", "published")
RUNS = os.path.join(ROOT, "build", "published")
OWN_SCRIPTS = {"liger": "liger.py", "smi": "smi.py", "modded_nanogpt": "modded_nanogpt.py"}
TIMEOUT = 900  # seconds; a job takes under a minute on two processors that are free
UNITS = {"bytes": 1, "MiB": 2**20, "GiB": 2**30, "MB": 10**6, "GB": 10**9}


class Missing(Exception):
    """What a run needs is not here."""


def source_names():
    return sorted(f[:-len(".json")] for f in os.listdir(os.path.join(HERE, "sources")) if f.endswith(".json"))


def load(name):
    with open(os.path.join(HERE, "sources", name + ".json")) as f:
        return json.load(f)


def checkout(source):
    """The publisher's repository, at the commit that the source names."""
    if "checkout" not in source:
        return None
    name = source["checkout"]["repository"].split("/")[1]
    path = os.path.join(os.environ.get("PUBLISHED_CHECKOUTS", "/nonexistent"), name)
    if not os.path.isdir(path):
        raise Missing("PUBLISHED_CHECKOUTS has no %s: git clone https://github.com/%s; git checkout %s" %
                      (name, source["checkout"]["repository"], source["checkout"]["commit"]))
    return path


def environment(source, run):
    """(Python, variables): PyTorch's environment, and the packages of the source in front of it."""
    torch = run.get("torch", source["torch"])
    made = subprocess.run([os.path.join(ROOT, "tests", "python-env.sh"), torch], check=True, stdout=subprocess.PIPE, text=True)
    python, paths, packages = made.stdout.strip(), [os.path.join(HERE, "jobs")], source.get("packages", [])
    if packages:
        folder = os.path.join(CACHE, hashlib.sha256((torch + " ".join(packages)).encode()).hexdigest()[:12])
        if not os.path.exists(os.path.join(folder, "complete")):
            subprocess.run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--target", folder, *packages],
                           check=True)
            with open(os.path.join(folder, "complete"), "w") as f:
                f.write("torch %s: %s\n" % (torch, " ".join(packages)))
        paths.append(folder)
    path = checkout(source)
    variables = {"PYTHONPATH": os.pathsep.join(paths), "HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", **source.get("variables", {}),
                 **run.get("variables", {})}
    if path:
        variables["CHECKOUT"] = path
    return python, variables


def simulate(source, run, again):
    """{key: bytes}, and the version of PyTorch, as the job's script says them."""
    python, variables = environment(source, run)
    key = json.dumps([run["command"], run.get("options"), sorted(variables.items()), python])
    kept = os.path.join(RUNS, hashlib.sha256(key.encode()).hexdigest()[:16] + ".json")
    needed = [os.path.join(os.path.dirname(MEMTRACE), f) for f in ("memtrace", "libcudasim.so")] + [os.path.join(HERE, "jobs", run["command"].split()[0])]
    newest = max(map(os.path.getmtime, needed))
    if not again and os.path.exists(kept) and os.path.getmtime(kept) > newest:
        with open(kept) as f:
            return json.load(f)
    script, *arguments = run["command"].split()
    launcher = [os.path.join(os.path.dirname(python), "torchrun"), "--nproc_per_node", str(run["ranks"])] if "ranks" in run else [python]
    with tempfile.TemporaryDirectory() as traces:
        done = subprocess.run([MEMTRACE, "simulate", "-o", traces, "--timeout", str(TIMEOUT), *run["options"].split(), "--", *launcher, os.path.join(HERE, "jobs", script),
                               *arguments], env={**os.environ, **variables}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    said = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"published"')]
    if not said:
        raise RuntimeError("%s\n%s" % (run["command"], (done.stdout + done.stderr)[-3000:]))
    result = {"torch": said[0]["torch"], "bytes": {s["published"]: s["bytes"] for s in said}}
    os.makedirs(RUNS, exist_ok=True)
    with open(kept, "w") as f:
        json.dump(result, f)
    return result


def estimate(declared, reserved):
    """Bytes, as `memtrace estimate --system memtrace` has them from the declared configuration of the job.

    "model" is a config.json of transformers, "how" is --how, "of" the figure of the result; the rest is the job."""
    if isinstance(declared, str):
        return None
    job = {k: v for k, v in declared.items() if k not in ("model", "how", "of")}
    command, variables = [MEMTRACE, "estimate", "--system", "memtrace", "--json", "--how", declared.get("how", "formula")], dict(os.environ)
    if declared.get("how") == "run":
        made = subprocess.run([os.path.join(ROOT, "tests", "python-env.sh"), "2.15"], check=True, stdout=subprocess.PIPE, text=True)
        variables["MEMTRACE_PYTHON"] = made.stdout.strip()
    with tempfile.TemporaryDirectory() as folder:
        for name, content in (("config.json", declared.get("model")), ("job.json", job)):
            if content:
                path = os.path.join(folder, name)
                with open(path, "w") as f:
                    json.dump(content, f)
                command += ["--config", path]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)
    if done.returncode not in (0, 3):
        raise RuntimeError("estimate: " + done.stderr)
    stage = json.loads(done.stdout)["estimates"][0]["per_stage"][0]
    return stage[declared.get("of", "reserved_bytes" if reserved else "peak_bytes")]


def in_unit(size, unit):
    if size is None or unit == "bytes":
        return size
    return round(size / UNITS[unit], 10)


def declared_job(source, run, row):
    """What a row declares for its estimate, or the reason that there is none."""
    return row.get("estimate", run.get("estimate", source.get("estimate")))


def estimated(source, run, row):
    """What a row of results says of the estimate."""
    declared = declared_job(source, run, row)
    made = {"estimate": in_unit(estimate(declared, "reserved" in row["metric"]), row["unit"])}
    if isinstance(declared, str):
        made["no_estimate"] = declared
    elif "how" in declared:
        made["estimated_by"] = declared["how"]
    return made


def rows_of(source, run, result):
    rows = []
    for row in run["rows"]:
        unit = row["unit"]
        made = {"family": row.get("family", source.get("family")), "job": row["job"], "gpu": row.get("gpu", source.get("gpu")),
                "measured_with": row.get("measured_with", source.get("measured_with")), "simulated_with": "PyTorch " + result["torch"],
                "metric": row["metric"], "unit": unit, "published": row["published"], "simulated": in_unit(result["bytes"][row["key"]], unit),
                **estimated(source, run, row), "cause": row.get("cause", run.get("cause", "")), "ours": row.get("ours", False)}
        rows.append(made)
    return rows


def estimate_again(name):
    source, path = load(name), os.path.join(HERE, "results", name + ".json")
    with open(path) as f:
        kept = json.load(f)
    found = {(r["job"], r["metric"]): r for r in kept["rows"]}
    for run in source["runs"]:
        for row in run["rows"]:
            made = found[row["job"], row["metric"]]
            for old in "no_estimate", "estimated_by":
                made.pop(old, None)
            made.update(estimated(source, run, row))
            print("%s: %s: %s" % (name, row["job"], made["estimate"]), flush=True)
    write(path, kept)


def write(path, results):
    with open(path, "w") as f:
        json.dump(results, f, indent=1, ensure_ascii=False)
        f.write("\n")


def run_source(name, again):
    source, rows = load(name), []
    path = os.path.join(HERE, "results", name + ".json")
    for run in source["runs"]:
        rows += rows_of(source, run, simulate(source, run, again))
        print("%s: %s" % (name, run["command"]), flush=True)
    options = source["runs"][0]["options"]
    command = "make published SOURCE=%s   # memtrace simulate %s -- python tests/published/jobs/%s" % (name, options, source["runs"][0]["command"])
    write(path, {"source": source["source"], "url": source["url"], "command": command, "rows": rows})


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--again", action="store_true")
    parser.add_argument("--estimates", action="store_true")
    parser.add_argument("source", nargs="*")
    given = parser.parse_args()
    failed = []
    for name in given.source or [*source_names(), *OWN_SCRIPTS]:
        try:
            if given.estimates:
                if name not in OWN_SCRIPTS:
                    estimate_again(name)
            elif name in OWN_SCRIPTS:
                script = os.path.join(HERE, OWN_SCRIPTS[name])
                if not os.path.exists(script):
                    raise Missing("%s is not here" % OWN_SCRIPTS[name])
                if subprocess.run([sys.executable, script]).returncode:
                    raise RuntimeError("%s failed" % OWN_SCRIPTS[name])
            else:
                run_source(name, given.again)
        except Missing as e:
            print("%s: left as it is: %s" % (name, e), flush=True)
        except (RuntimeError, subprocess.CalledProcessError) as e:
            failed.append(name)
            print("%s: %s" % (name, e), file=sys.stderr, flush=True)
    subprocess.run([sys.executable, os.path.join(HERE, "page.py"), "--write"], check=True)
    sys.exit("failed: " + " ".join(failed) if failed else 0)


if __name__ == "__main__":
    main()
