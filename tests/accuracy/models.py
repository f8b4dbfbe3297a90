"""Every model type of transformers: parameters and the peak of a training step, by `memtrace estimate`'s two ways.

    python3 tests/accuracy/models.py [--types bert,t5,...] [--again] [--minutes N] [--write]

--types: only these; the rows of the others stay as they are in build/models/models.json, or in the page; --again: only the types that did not run the
last time; --write: docs/models.md, and its summary in docs/accuracy.md; --minutes: stops after so many, and names the types that it did not reach.

For each type of transformers' CONFIG_MAPPING, the default configuration's parameters are counted by transformers on the meta device, by
memtrace's formula if it has one, and by the run. The same configuration with few layers (models_configure.py) is trained for two steps on the simulated
device (a batch of 1, 128 tokens): memtrace's peak, recorded and by formula, is held against PyTorch's own max_memory_allocated().
"""
import argparse
import collections
import json
import os
import re
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
from harness import MEMTRACE, ROOT, environment, python  # noqa: E402
from models_step import COMPLETED  # noqa: E402

HERE = os.path.dirname(os.path.abspath(__file__))
PAGE = os.path.join(ROOT, "docs", "models.md")
SUMMARY = os.path.join(ROOT, "docs", "accuracy.md")
HEADING = "## Every model type of transformers\n"
FOLDER = os.path.join(ROOT, "build", "models")

ALL_LAYERS = ", all layers"
NOT_REACHED = "not reached in the time given"


def read(path):
    try:
        with open(path, encoding="utf-8") as f:
            return json.load(f)
    except (OSError, ValueError):
        return None


def ask(*command):
    done = subprocess.run([MEMTRACE, *command], text=True, capture_output=True, env=environment(), check=False)
    return json.loads(done.stdout) if done.stdout.startswith("{") else None


def configure(folder, wanted):
    """The types with a default configuration, and the errors of the others."""
    done = subprocess.run([python(), os.path.join(HERE, "models_configure.py"), folder, wanted], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
                          check=True, env=environment(HF_HUB_OFFLINE=1))
    lines = [line.split(" ", 2) for line in done.stdout.splitlines()]
    return [line[0] for line in lines if len(line) == 1], {line[0]: line[2] for line in lines if len(line) == 3}


def run_all(folder, kinds, traces, minutes):
    packages = subprocess.run([os.path.join(ROOT, "tests", "models-env.sh")], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()
    script = os.path.join(ROOT, "build", "cudasim", "python") + ":" + packages
    with open(os.path.join(folder, "log"), "w", encoding="utf-8") as log:
        limit = ["timeout", "%gm" % minutes] if minutes else []
        subprocess.run([*limit, MEMTRACE, "simulate", "--memory", "8TiB", "-o", traces, "--", python(), os.path.join(HERE, "models_job.py"), folder, *kinds],
                       stdout=log, stderr=log, check=False,
                       env=environment(PYTHONPATH=script, HF_HUB_OFFLINE=1, MEMTRACE_STACK_MIN="1MiB", PYTORCH_NVML_BASED_CUDA_CHECK=1,
                                       MEMTRACE_QUIET=1, CUDASIM_QUIET=1))


def formula(folder, kind):
    """(parameters, the peak of the model with few layers or None) by memtrace alone."""
    path = os.path.join(folder, kind + ".whole.json")
    if "text_config" in (read(path) or {}):  # its formulas are those of the language model in it
        return None, None
    answer = ask("estimate", "--json", "--how", "formula", "--config", path)
    shown = ask("estimate", "--json", "--show-config", "--config", path)
    keys = {row["key"]: row["value"] for row in (shown or {}).get("config", [])} if isinstance((shown or {}).get("config"), list) else {}
    counted = (answer or {}).get("config", {}).get("num_parameters", keys.get("num_parameters"))
    if not any(e["system"] == "memtrace" for e in (answer or {}).get("estimates", [])):
        return counted, None
    images = "patch_size" in (read(path) or {})  # their tokens are the patches
    job = [word for key, value in read(os.path.join(folder, kind + ".job.json")).items() if not (images and key == "seq_length") for word in ("--set", "%s=%s" % (key, value))]
    reduced = ask("estimate", "--json", "--how", "formula", "--system", "memtrace", "--config", os.path.join(folder, kind + ".json"), *job)
    return counted, reduced["estimates"][0]["total_bytes"]


def rows_of(folder, kinds, failed, traces):
    peaks = {}
    for name in os.listdir(traces) if os.path.isdir(traces) else []:
        if name.endswith(".mtr"):
            for rank in (ask("report", "--json", os.path.join(traces, name)) or {}).get("ranks", []):
                peaks[rank["pid"]] = max(peaks.get(rank["pid"], 0), rank["peak"]["allocated_bytes"])
    reached = [i for i, kind in enumerate(kinds) if os.path.exists(os.path.join(folder, kind + ".result.json"))]
    for i, kind in enumerate(kinds):
        missing = "ended without a result (40 s of processor time, or a crash)" if reached and i < reached[-1] else NOT_REACHED
        result = read(os.path.join(folder, kind + ".result.json")) or {"error": missing}
        counted, peak = formula(folder, kind)
        yield {"type": kind, "formula": counted, "has_formula": peak is not None, "estimated": peak, "recorded": peaks.get(result.get("pid")), **result}
    for kind, why in failed.items():
        yield {"type": kind, "error": "no default configuration: " + why}


def rows_of_page():
    """The rows of docs/models.md, to the precision that it prints."""
    with open(PAGE, encoding="utf-8") as f:
        text = f.read()
    made = re.search(r"transformers (\S+) and PyTorch (\S+)\.", text)
    names = ("type", "class", "parameters", "formula", "by", "peak", "recorded", "estimated")
    for line in text.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if line.startswith("| ") else []
        if len(cells) == len(names) and cells[2].isdigit():
            row = dict(zip(names, cells))
            count, peak = int(row["parameters"]), round(float(row["peak"]) * 2 ** 20)
            yield {"type": row["type"], "class": row["class"].removesuffix(ALL_LAYERS), "whole": row["class"].endswith(ALL_LAYERS), "parameters": count, "formula": of_share(row["formula"], count),
                   "has_formula": row["by"] == "formula", "peak_bytes": peak, "recorded": of_share(row["recorded"], peak),
                   "estimated": of_share(row["estimated"], peak),
                   "transformers": made.group(1), "torch": made.group(2)}
        elif len(cells) == 2 and re.match(r"\d+: ", cells[1]):
            for kind in cells[1].split(": ", 1)[1].split(", "):
                yield {"type": kind, "error": cells[0]}


def of_share(text, whole):
    """The inverse of share()."""
    return None if text == "-" else round(whole * (1 + float(text.split()[0]) / 100))


def share(a, b):
    return "%+.3f %%" % (100 * (a / b - 1)) if a and b else "-"


def table(rows):
    good = [r for r in rows if "error" not in r]
    counted = [r for r in rows if r.get("formula") and r.get("parameters")]
    exact = [r for r in counted if r["formula"] == r["parameters"]]
    near = [r for r in good if r.get("recorded") and abs(r["recorded"] / r["peak_bytes"] - 1) <= 0.001]
    yield "# Every model type of transformers\n"
    yield "Made by `python3 tests/accuracy/models.py --write` with transformers %s and PyTorch %s." % (
        next((r["transformers"] for r in good), "?"), next((r["torch"] for r in good), "?"))
    yield ("Parameters are those of the default configuration: counted by transformers on the meta device, and by memtrace's formula, which is then\n"
           "also that of `num_parameters`; without a formula the run counts them. The peak is that of two training steps of the same model with two\n"
           "layers (more where the pattern of its layers needs them; \"all layers\": the whole model), a batch of 1 and 128 tokens, or as many as the model has\n"
           "positions: recorded by memtrace, and by its formula, beside PyTorch's `max_memory_allocated()`. \"Peak by\" is what `memtrace estimate` takes by\n"
           "itself (`--how auto`).\n")
    yield ("Default configurations that lack what a model needs have it from a published model of the type (`COMPLETED` in `tests/accuracy/models_step.py`): %s.\n"
           % ", ".join(sorted(COMPLETED)))
    yield "%d types; %d run; of %d peaks recorded, %d are PyTorch's to 0.1 %%; of %d counts by formula, %d are exact.\n" % (
        len(rows), len(good), len([r for r in good if r.get("recorded")]), len(near), len(counted), len(exact))
    if any(r.get("error") == NOT_REACHED for r in rows):
        yield "Not all types were reached: `--again --minutes N` goes on.\n"
    yield "| type | model | parameters | by formula | peak by | PyTorch's peak, MiB | recorded | by formula |\n|---|---|---|---|---|---|---|---|"
    for r in sorted(good, key=lambda r: r["type"]):
        yield "| %s | %s | %d | %s | %s | %.1f | %s | %s |" % (r["type"], r["class"] + (ALL_LAYERS if r.get("whole") else ""), r["parameters"], share(r.get("formula"), r["parameters"]),
                                                              "formula" if r["has_formula"] else "run", r["peak_bytes"] / 2 ** 20,
                                                              share(r.get("recorded"), r["peak_bytes"]), share(r.get("estimated"), r["peak_bytes"]))
    causes = collections.Counter(cause(r["error"]) for r in rows if "error" in r)
    yield "\n## Not run\n\n| cause | types |\n|---|---|"
    for why, count in causes.most_common():
        yield "| %s | %d: %s |" % (why.replace("|", "\\|"), count, ", ".join(sorted(r["type"] for r in rows if cause(r.get("error", "")) == why)))


def summary_row(what, rows, key, of):
    """A row of the summary: how many values there are, how far they are off."""
    off = [abs(r[key] / r[of] - 1) for r in rows if r.get(key) and r.get(of)]
    yield "| %s | %d | %d | %d | %d | %d | %s |" % (what, len(rows), len(off), sum(x < 1e-5 for x in off), sum(x <= 0.001 for x in off),
                                                  sum(x <= 0.01 for x in off), "%.3f %%" % (100 * max(off)) if off else "-")


def summary(rows):
    """The section of docs/accuracy.md."""
    good = [r for r in rows if "error" not in r]
    yield HEADING
    yield ("`python3 tests/accuracy/models.py --write` writes this section and [models.md](models.md), which has a row for each type: its parameters, and the peak of\n"
           "a training step by formula, if it has one, and by a run on the simulated device, held against transformers' own count and PyTorch's\n"
           "`max_memory_allocated()`. Of %d types %d have a model that is trained and an input that memtrace makes; the page gives the reason for each of\n"
           "the others.\n" % (len(rows), len(good)))
    yield "| quantity | types | compared | within 0.001 % | within 0.1 % | within 1 % | worst |\n|---|---|---|---|---|---|---|"
    yield from summary_row("parameters by formula", [r for r in good if r.get("formula")], "formula", "parameters")
    yield from summary_row("peak by formula", [r for r in good if r["has_formula"]], "estimated", "peak_bytes")
    yield from summary_row("peak by a run", [r for r in good if not r["has_formula"]], "recorded", "peak_bytes")
    yield from summary_row("peak recorded, all that run", good, "recorded", "peak_bytes")


def section(text):
    """(before, the summary, after) of docs/accuracy.md."""
    before, heading, after = text.partition(HEADING)
    if not heading:
        before, _, after = before.partition("\n## ")
        return before, "", "\n## " + after
    own, _, after = after.partition("\n## ")
    return before, heading + own, "\n## " + after


def write_summary(rows):
    """Puts the section into docs/accuracy.md, before that of accuracy_megatron.py."""
    with open(SUMMARY, encoding="utf-8") as f:
        before, _, after = section(f.read())
    with open(SUMMARY, "w", encoding="utf-8") as f:
        f.write(before.rstrip() + "\n\n" + "\n".join(summary(rows)) + "\n" + after)


def cause(error):
    """The kind of an error, so that types with the same one are one row."""
    if error.startswith("Refused") and "needs the input" in error:
        return "an input that memtrace does not make"
    if error.startswith("Refused"):
        return "transformers has no model that is trained" if "has no model" in error else error[len("Refused: "):]
    return error[:100]


def kept(last, types, again):
    """The rows of the last time that stay, and the types that are run now (none: all)."""
    if types:
        return [row for row in last if row["type"] not in types], types
    if again:
        return [row for row in last if "error" not in row], [row["type"] for row in last if "error" in row]
    return [], []


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--types", default="")
    ap.add_argument("--minutes", type=float)
    ap.add_argument("--write", action="store_true")
    ap.add_argument("--again", action="store_true")
    o = ap.parse_args()
    os.makedirs(FOLDER, exist_ok=True)
    stay, types = kept(read(os.path.join(FOLDER, "models.json")) or list(rows_of_page()), o.types.split(",") if o.types else [], o.again)
    with tempfile.TemporaryDirectory(dir=FOLDER) as folder:
        kinds, failed = configure(folder, ",".join(types)) if types or not stay else ([], {})
        traces = os.path.join(folder, "traces")
        if kinds:
            run_all(folder, kinds, traces, o.minutes)
        rows = stay + list(rows_of(folder, kinds, failed, traces))
    with open(os.path.join(FOLDER, "models.json"), "w", encoding="utf-8") as f:
        json.dump(rows, f, indent=1)
    text = "\n".join(table(rows)) + "\n"
    if o.write:
        with open(PAGE, "w", encoding="utf-8") as f:
            f.write(text)
        write_summary(rows)
    else:
        sys.stdout.write(text)


if __name__ == "__main__":
    main()
