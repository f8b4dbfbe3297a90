"""Errors of the estimates against the peaks that PyTorch counted, by class of job: prints a table; --write puts it into docs/accuracy.md.

    python3 tests/accuracy/accuracy.py [--write] [ROWS.json|ROWS.jsonl ...]

A row has "job" (keys of memtrace-config(5)), "peak_allocated_bytes", "peak_reserved_bytes" and, if known, "class" and "name". Without
files the rows are tests/accuracy/observed.json.
"""
import json
import os
import subprocess
import sys

import megatron_formula

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MEMTRACE = os.path.join(ROOT, "build", "memtrace")
OBSERVED = os.path.join(ROOT, "tests", "accuracy", "observed.json")
SYSTEMS = ["memtrace", "nanogpt", "llama-4d", "training-memory-blog", "deepspeed-zero"]
MEGATRON = "Megatron-LM's formula"


def read_rows(paths):
    rows = []
    for path in paths:
        with open(path) as f:
            text = f.read()
        rows += json.loads(text) if text.lstrip().startswith("[") else [json.loads(line) for line in text.splitlines() if line.strip()]
    return [row for row in rows if "job" in row]


def estimates_of(job):
    """{system: its estimate}; a system that cannot estimate the job has no entry."""
    command = [MEMTRACE, "estimate", "--json"]
    done = subprocess.run([*command, "--config", "/dev/stdin"], input=json.dumps(job), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True)
    if not done.stdout:
        raise RuntimeError(done.stderr)
    said = json.loads(done.stdout)
    made = {e["system"]: e for e in said["estimates"]}
    try:
        if said["config"].get("framework") == "megatron-core":
            made[MEGATRON] = {"total_bytes": megatron_formula.total(said["config"])}
    except megatron_formula.Unsaid:
        pass
    return made


def class_of(row):
    job = row["job"]
    kind = row.get("class") or row.get("framework") or job.get("framework", "megatron-core")
    layout = [word for word, key in (("TP", "tensor_model_parallel_size"), ("PP", "pipeline_model_parallel_size"),
                                     ("CP", "context_parallel_size"), ("EP", "expert_model_parallel_size"), ("DP", "data_parallel_size"))
              if job.get(key, 1) > 1 and not kind.endswith(("DDP", "FSDP2"))]
    recompute = job.get("recompute_granularity")
    return " ".join([kind, "x".join(layout), "recompute" if recompute else ""]).replace("  ", " ").strip()


def errors_of(row):
    """{system: relative error of the allocated peak}; "reserved" is the error of our system's reserved peak."""
    made = estimates_of(row["job"])
    errors = {name: made[name]["total_bytes"] / row["peak_allocated_bytes"] - 1 for name in [*SYSTEMS, MEGATRON] if name in made}
    if "memtrace" in made:
        worst = max(stage["reserved_bytes"] for stage in made["memtrace"]["per_stage"])
        errors["reserved"] = worst / row["peak_reserved_bytes"] - 1
    return errors


def mean(values):
    return sum(map(abs, values)) / len(values)


def cell(values):
    return "%.2f %% (%d)" % (100 * mean(values), len(values)) if values else "-"


def table(results):
    columns = ["memtrace", "reserved", *SYSTEMS[1:], MEGATRON]
    heads = ["class", "rows", "memtrace", "worst", "its reserved", *SYSTEMS[1:], MEGATRON]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    classes = sorted({kind for kind, _, _ in results})
    for kind in [*classes, "all"]:
        some = [errors for k, _, errors in results if kind in (k, "all")]
        values = {c: [e[c] for e in some if c in e] for c in columns}
        worst = max(map(abs, values["memtrace"]), default=0)
        lines.append("| %s | %d | %s | %.2f %% | %s | %s |" % (kind, len(some), cell(values["memtrace"]), 100 * worst, cell(values["reserved"]),
                                                              " | ".join(cell(values[s]) for s in [*SYSTEMS[1:], MEGATRON])))
    return "\n".join(lines)


def worst_rows(results, count=10):
    known = [(abs(e["memtrace"]), name, e) for _, name, e in results if "memtrace" in e]
    lines = ["| row | allocated | reserved |", "|---|---|---|"]
    for _, name, e in sorted(known, reverse=True, key=lambda entry: entry[:2])[:count]:
        lines.append("| %s | %+.3f %% | %+.2f %% |" % (name, 100 * e["memtrace"], 100 * e["reserved"]))
    return "\n".join(lines)


PAGE = """# Accuracy of the estimates

`make accuracy` writes this page. A row is a job of `tests/accuracy/accuracy_runs.py`. The job ran with the real PyTorch, transformers, DeepSpeed and Megatron-core
on the simulated device (kernels do nothing, every allocation is real), and was estimated from its declared configuration only. An error is the difference
of the estimated from the observed allocated peak, of the rank with the largest peak. A cell is the mean of the absolute errors, and in brackets the number of
rows that the system can estimate. The documents' systems are evaluated as their sources print them. Megatron-LM's own theoretical_memory_usage.py is evaluated
on the jobs of Megatron-core.

%s

The rows with the largest errors:

%s
"""


def main():
    arguments = [a for a in sys.argv[1:] if a != "--write"]
    results = []
    for row in read_rows(arguments or [OBSERVED]):
        results.append((class_of(row), row.get("name", "?")[:100], errors_of(row)))
    print(table(results))
    print()
    print(worst_rows(results))
    if "--write" in sys.argv:
        name = os.path.join(ROOT, "docs", "accuracy.md")
        with open(name) as f:
            others = f.read().partition("\n## ")  # accuracy_megatron.py's
        with open(name, "w") as f:
            f.write(PAGE % (table(results), worst_rows(results)) + others[1] + others[2])


if __name__ == "__main__":
    main()
