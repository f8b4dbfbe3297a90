#!/usr/bin/env python3
"""The order and the times of `memtrace plan` against the throughput that document 003 measured (document_003.json).

  planner.py BUILD/memtrace            prints the table of docs/planner.md
  planner.py BUILD/memtrace --write    writes it into the page
"""
import json
import os
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(HERE, "..", "..", "docs", "planner.md")
BEGIN, END = "<!-- planner.py -->\n", "<!-- end -->\n"
# The columns on which the model was developed and its global parameters were fitted; the others were left out.
DEVELOPMENT = {(3, 8), (3, 32), (3, 128), (4, 4), (4, 16), (4, 64), (10, 4), (10, 16), (10, 64), (11, 8), (11, 32)}
LLAMA_8B = {"num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32}
LLAMA_70B = {"num_layers": 80, "hidden_size": 8192, "ffn_hidden_size": 28672, "num_attention_heads": 64}
ALL = {"num_query_groups": 8, "vocab_size": 128256, "swiglu": True, "untie_embeddings_and_output_weights": True, "precision": "bf16-mixed",
       "global_batch_size": 1024, "framework": "megatron-core", "attention": "flash", "device_memory_bytes": 1 << 40}
A100 = {"gpu": "A100-40GB", "num_gpus_per_node": 8}
H100 = {"gpu": "H100-SXM-94GB", "num_gpus_per_node": 4}
TABLES = {3: dict(LLAMA_8B, seq_length=8192, **A100), 6: dict(LLAMA_70B, seq_length=8192, **A100),
          4: dict(LLAMA_8B, seq_length=8192, **H100), 10: dict(LLAMA_8B, seq_length=16384, **H100),
          11: dict(LLAMA_8B, seq_length=32768, **H100)}
KEYS = ("tensor_model_parallel_size", "context_parallel_size", "pipeline_model_parallel_size", "micro_batch_size")


def operations(job):
    """Of one step, as Megatron-LM counts them (and document 003, which adapts Narayanan et al.)."""
    h, layers, s = job["hidden_size"], job["num_layers"], job["seq_length"]
    width = 1 + job["num_query_groups"] / job["num_attention_heads"] + s / h + 1.5 * job["ffn_hidden_size"] / h
    return 12 * job["global_batch_size"] * s * layers * h * h * (width + job["vocab_size"] / (2 * layers * h))


def plan(memtrace, job, gpus, order):
    """The layouts as {(tensor, context, pipeline, micro-batch): (place, seconds)}."""
    given = [x for k, v in job.items() for x in ("--set", "%s=%s" % (k, json.dumps(v) if isinstance(v, bool) else v))]
    out = subprocess.run([memtrace, "plan", "--json", "--system", "llama-4d", "--gpus", str(gpus), "--fix", "zero=1", "--order", order,
                          "--max-tp", "8", *given], stdout=subprocess.PIPE, check=True).stdout
    return {tuple(l[k] for k in KEYS): (place, l["step_time_s"]) for place, l in enumerate(json.loads(out)["layouts"])}


def ranks(values):
    """The place of each value; equal values share the mean place."""
    return [sum(v < x for v in values) + (sum(v == x for v in values) - 1) / 2 for x in values]


def correlation(a, b):
    """Spearman's rank correlation."""
    x, y = ranks(a), ranks(b)
    mx, my = sum(x) / len(x), sum(y) / len(y)
    spread = sum((u - mx) ** 2 for u in x) * sum((v - my) ** 2 for v in y)
    return sum((u - mx) * (v - my) for u, v in zip(x, y)) / spread ** 0.5


def column(memtrace, table, gpus, cells):
    job = dict(ALL, **TABLES[table])
    timed, document = plan(memtrace, job, gpus, "time"), plan(memtrace, job, gpus, "document")
    measured = [c[4] for c in cells]
    places = [[-p[tuple(c[:4])][0] for c in cells] for p in (timed, document)]
    rates = [operations(job) / timed[tuple(c[:4])][1] / gpus / 1e12 for c in cells]

    def loss(place):
        return 1 - measured[place.index(max(place))] / max(measured)
    return {"table": table, "gpus": gpus, "cells": len(cells), "held_out": (table, gpus) not in DEVELOPMENT,
            "correlation": correlation(places[0], measured), "loss": loss(places[0]),
            "error": sum(abs(r / m - 1) for r, m in zip(rates, measured)) / len(cells),
            "worst": max((abs(r / m - 1) for r, m in zip(rates, measured))),
            "document_correlation": correlation(places[1], measured), "document_loss": loss(places[1])}


def columns(memtrace):
    with open(os.path.join(HERE, "document_003.json")) as f:
        found = json.load(f)["columns"]
    return [column(memtrace, c["table"], c["gpus"], c["cells"]) for c in found if len(c["cells"]) > 1]


def summary(rows):
    cells = sum(r["cells"] for r in rows)
    return {"correlation": sum(r["correlation"] for r in rows) / len(rows), "loss": sum(r["loss"] for r in rows) / len(rows),
            "worst_loss": max(r["loss"] for r in rows), "error": sum(r["error"] * r["cells"] for r in rows) / cells,
            "document_correlation": sum(r["document_correlation"] for r in rows) / len(rows),
            "document_loss": sum(r["document_loss"] for r in rows) / len(rows), "document_worst": max(r["document_loss"] for r in rows)}


def table(rows):
    lines = ["| table | GPUs | layouts | | rank correlation | first choice slower by | throughput off by, mean | largest | `--order document`: correlation | slower by |",
             "|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        lines.append("| %d | %d | %d | %s | %.2f | %.1f %% | %.1f %% | %.1f %% | %.2f | %.1f %% |" % (
            r["table"], r["gpus"], r["cells"], "left out" if r["held_out"] else "development", r["correlation"], 100 * r["loss"],
            100 * r["error"], 100 * r["worst"], r["document_correlation"], 100 * r["document_loss"]))
    for name, chosen in (("development", [r for r in rows if not r["held_out"]]), ("left out", [r for r in rows if r["held_out"]]), ("all", rows)):
        s = summary(chosen)
        lines.append("| **%s** | | %d | | **%.2f** | **%.1f %%**, at worst %.1f %% | **%.1f %%** | | %.2f | %.1f %%, at worst %.1f %% |" % (
            name, sum(r["cells"] for r in chosen), s["correlation"], 100 * s["loss"], 100 * s["worst_loss"], 100 * s["error"],
            s["document_correlation"], 100 * s["document_loss"], 100 * s["document_worst"]))
    return "\n".join(lines) + "\n"


def page_table():
    with open(PAGE) as f:
        return f.read().split(BEGIN)[1].split(END)[0]


def main():
    text = table(columns(sys.argv[1]))
    if "--write" not in sys.argv:
        sys.stdout.write(text)
        return
    with open(PAGE) as f:
        page = f.read()
    with open(PAGE, "w") as f:
        f.write(page.split(BEGIN)[0] + BEGIN + text + END + page.split(END)[1])


if __name__ == "__main__":
    main()
