"""Remakes the memory rows of Liger-Kernel's benchmark table on the simulated device.

    liger.py CHECKOUT [--rows FILE] [--kernel NAME] [--again] [--memtrace COMMAND]

CHECKOUT is a clone of linkedin/Liger-Kernel, or its git directory, with the refs/pull/*/head of GitHub where a row was measured with
a state of a pull request. FILE has rows like those of results/liger.json (the default), which is written. One process runs one
script, as the publisher did; what has run is kept in ~/.cache/memtrace/published-liger and not run again without --again."""
import argparse
import io
import json
import os
import re
import subprocess
import sys
import tarfile

HERE = os.path.dirname(os.path.abspath(__file__))
RESULTS = os.path.join(HERE, "results", "liger.json")
CACHE = os.path.join(os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache")), "memtrace", "published-liger")
LIBRARIES = "transformers~=%s numpy<2.3 pytest"
TRANSFORMERS = "4.46.3"  # of states that need no later one
LATER = "4.57.6"  # of scripts that import models which the state's own version does not have
SCRIPTS = {"fused_linear_orpo_loss": "orpo_loss", "tiled_geglu": "tiled_mlp", "tiled_swiglu": "tiled_mlp"}
GPUS = {"A100-SXM4-80GB": "A100-80GB", "A100-SXM4-40GB": "A100-40GB", "A100 80GB PCIe": "A100-80GB", "H100 PCIe": "H100-PCIe",
        "H100 80GB HBM3": "H100-80GB", "GeForce RTX 3090": "RTX-3090", "GeForce RTX 4090": "RTX-4090", "B200": "B200"}
NOTE = """Options after a script's name are those of `tests/published/liger_job.py`. `--collect N`: the publisher's process held memory that earlier benchmarks had left,
until Python's garbage collector ran. When it ran was not published. It runs here before benchmark N only (99: never), the moment with which the rows of the sweep agree.

`distill_jsd_loss` was measured with a state that was not published: of 720b5cbe, with the kernel and the script of 9218cf07, and with chunks of 1024 tokens,
the default that the author's next commit names in its message (17c5b333). With PyTorch 2.4.1 all eight rows are exact. Compiled functions of the first two
speed benchmarks (1024 and 2048 tokens) hold those benchmarks' weights, inputs and gradients, 4,060 MiB, as long as the collector does not run."""
MEASURED = os.path.join(HERE, "liger_measured.json")  # the code, the PyTorch and the order that the publisher had, if not the row's


def named(state, later, changed):
    """The parts of the names of a tree and of its runs."""
    return [state, *later[:1], *(re.sub(r"\W+", "_", to).strip("_") for _, _, to in changed)]


def tree(checkout, state, later, changed):
    """The files of a commit, some of them as a later one has them, or with another value in one place."""
    at = os.path.join(CACHE, "src", "+".join(named(state, later, changed)))
    if not os.path.exists(os.path.join(at, "complete")):
        extract(checkout, state, at, subprocess.check_output(["git", "-C", checkout, "ls-tree", "-r", "--name-only", state], text=True).split("\n"))
        if later:
            extract(checkout, later[0], at, later[1:])
            without_missing(os.path.join(at, "src"), [os.path.join(at, n) for n in later[1:]])
        for name, old, new in changed:
            change(os.path.join(at, name), old, new)
        open(os.path.join(at, "complete"), "w").close()
    return at


def without_missing(source, files):
    """Drops the lines of `files` that name what they import from modules that this state does not have yet."""
    for name in files:
        with open(name) as f:
            lines = f.read().split("\n")
        gone = [m.group(2) for m in (re.match(r"from (liger_kernel[.\w]*) import (\w+)", line) for line in lines)
                if m and not os.path.exists(os.path.join(source, m.group(1).replace(".", "/") + ".py"))
                and not os.path.exists(os.path.join(source, m.group(1).replace(".", "/")))]
        with open(name, "w") as f:
            f.write("\n".join(line for line in lines if not any(g in line for g in gone)))


def change(name, old, new):
    with open(name) as f:
        text = f.read()
    if text.count(old) != 1:
        raise ValueError("%s has %r %d times" % (name, old, text.count(old)))
    with open(name, "w") as f:
        f.write(text.replace(old, new))


def extract(checkout, commit, at, names):
    names = [n for n in names if re.match(r"(src|benchmark/scripts|test)/.*\.py$", n)]
    data = subprocess.check_output(["git", "-C", checkout, "archive", commit, *names])
    with tarfile.open(fileobj=io.BytesIO(data)) as tar:
        tar.extractall(at, filter="data")


def transformers_of(checkout, state):
    """The least version that the state asks for in pyproject.toml or setup.py, if it is a later one than TRANSFORMERS."""
    asked = [TRANSFORMERS]
    for name in "pyproject.toml", "setup.py":
        shown = subprocess.run(["git", "-C", checkout, "show", "%s:%s" % (state, name)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False)
        asked += re.findall(r"transformers>=(\d+\.\d+\.\d+)", shown.stdout)
    return max(asked, key=lambda version: tuple(map(int, version.split("."))))


def libraries(python, version):
    at = os.path.join(CACHE, "libraries" if version == TRANSFORMERS else "libraries-" + version)
    if not os.path.exists(os.path.join(at, "complete")):
        subprocess.check_call([python, "-m", "pip", "install", "-q", "--target", at, *(LIBRARIES % version).split(" ")])
        open(os.path.join(at, "complete"), "w").close()
    return at


def lacks(folder, script):
    """A module of transformers that a benchmark script imports and the installed version lacks."""
    with open(script) as f:
        names = re.findall(r"from (transformers[\w.]*) import", f.read())
    for name in names:
        at = os.path.join(folder, *name.split("."))
        if not os.path.exists(at + ".py") and not os.path.isdir(at):
            return name
    return None


def libraries_of(python, checkout, state, script):
    at = libraries(python, transformers_of(checkout, state))
    return libraries(python, LATER) if lacks(at, script) else at


def about(row):
    return "%s %s %s" % (row["timestamp"], row["provider"], row["config"])


def job(row, measured):
    """What makes a row: state, version of PyTorch, script, GPU, arguments."""
    name = row["gpu"].replace("NVIDIA ", "")
    args = ["--sweep-dim", "num_experts"] if row["kernel"] == "fused_moe" and row["x"] == "E" else []
    script = "benchmark_%s.py" % SCRIPTS.get(row["kernel"], row["kernel"])
    plan = {"state": row["commit"], "torch": row["torch"][:3], "arguments": [], "with": [], "changed": []}
    for m in measured:
        if m["kernel"] == row["kernel"] and re.search(m["rows"], about(row)):
            plan.update({k: v for k, v in m.items() if k in plan})
    return plan["state"], plan["torch"], script, GPUS[name], tuple(plan["arguments"] + args), tuple(plan["with"]), tuple(map(tuple, plan["changed"]))


def run(checkout, memtrace, what, again):
    """The rows that one script printed."""
    state, torch, script, gpu, args, later, changed = what
    out = os.path.join(CACHE, "runs", re.sub(r"[^\w.+-]+", "_", " ".join([*named(state, later, changed), torch, script, gpu, *args])) + ".json")
    if again or not os.path.exists(out):
        os.makedirs(os.path.dirname(out), exist_ok=True)
        python = subprocess.check_output([os.path.join(HERE, "..", "python-env.sh"), torch], text=True).strip()
        files = tree(checkout, state, later, changed)
        command = [memtrace, "simulate", "--gpu", gpu, "-o", out + ".trace", "--", python, os.path.join(HERE, "liger_job.py"), files, script, out + ".part", *args]
        used = libraries_of(python, checkout, state, os.path.join(files, "benchmark", "scripts", script))
        print(" ".join(command), flush=True)
        if os.path.exists(out + ".part"):
            os.remove(out + ".part")
        with open(out + ".log", "w") as log:
            done = subprocess.run(command, stdout=log, stderr=log, env={**os.environ, "PYTHONPATH": used}, check=False)
        if done.returncode or not os.path.exists(out + ".part"):
            print("failed (%d): see %s.log" % (done.returncode, out), file=sys.stderr)
            return []
        os.rename(out + ".part", out)
    with open(out) as f:
        return [json.loads(line) for line in f]


def key(row):
    return row["kernel"], row["provider"], row["mode"], row["x"], str(row["x_value"]), json.dumps(json.loads(row["config"]), sort_keys=True)


def main():
    args = argparse.ArgumentParser()
    args.add_argument("checkout")
    args.add_argument("--rows", default=RESULTS)
    args.add_argument("--kernel", action="append")
    args.add_argument("--again", action="store_true")
    args.add_argument("--memtrace", default=os.path.join(HERE, "..", "..", "build", "memtrace"))
    args = args.parse_args()
    with open(args.rows) as f:
        table = json.load(f)
    with open(MEASURED) as f:
        measured = json.load(f)
    jobs = {}
    for row in table["rows"]:
        if (not args.kernel or row["kernel"] in args.kernel):
            jobs.setdefault(job(row, measured), []).append(row)
    for what, rows in jobs.items():
        got = {key(r): r.get("mib") for r in run(args.checkout, args.memtrace, what, args.again) if r["metric"] == "memory"}
        for row in rows:
            row["simulated"] = got.get(key(row), row.get("simulated"))
    write(table, measured)


def exact(row):
    """As far as the script's 32-bit floats go."""
    return row["simulated"] is not None and abs(row["simulated"] - row["published"]) <= 2 ** -23 * row["published"]


def write(table, measured):
    """results/liger.json, with a cause for each row that differs."""
    for row in table["rows"]:
        row.setdefault("published", row.pop("published_mib", None))
        row.setdefault("simulated", row.pop("simulated_mib", None))
        state, torch, script, _, arguments, _, _ = job(row, measured)
        m = [m for m in measured if m["kernel"] == row["kernel"] and re.search(m["rows"], about(row))]
        same = exact(row)
        row.update(family=row["kernel"], metric="max_memory_allocated", unit="MiB", estimate=None, measured_with="Liger-Kernel %s" % row["liger_version"],
                   simulated_with="PyTorch %s, Liger-Kernel %s" % (torch, state),
                   job=" ".join([script, *arguments, row["provider"], row["mode"] or "", "%s=%s" % (row["x"], row["x_value"])]),
                   cause="" if same else m[0]["cause"] if m else row.get("cause", ""), ours=bool(not same and m and m[0]["ours"]))
    table.update(source="Liger-Kernel", url="https://github.com/linkedin/Liger-Kernel/blob/main/benchmark/data/all_benchmark_data.csv",
                 command="tests/published/liger.py CHECKOUT", note=NOTE)
    table.pop("about", None)
    os.makedirs(os.path.dirname(RESULTS), exist_ok=True)
    with open(RESULTS, "w") as f:
        json.dump(table, f, indent=0)
        f.write("\n")
    families = {}
    for row in table["rows"]:
        families.setdefault(row["kernel"], []).append(row)
    for family, rows in families.items():
        print("%-28s %3d rows, %3d exact" % (family, len(rows), sum(map(exact, rows))))


if __name__ == "__main__":
    main()
