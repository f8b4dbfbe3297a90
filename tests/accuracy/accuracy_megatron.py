#!/usr/bin/env python3
"""Compares our own estimate with the memory that Megatron-LM's functional tests measured on real GPUs.

usage: accuracy_megatron.py ROWS.json [--build DIR] [--rows] [--worst N] [--select TEXT] [--options] [--write]

Every row has the exact command line (argv), the environment, the GPU, the container and the number of GPUs of the job. The measured values are
mem-allocated-bytes after a step (steady) and mem-max-allocated-bytes (peak), of the last rank. The rows are not part of the project."""
import argparse
import concurrent.futures
import json
import os
import re
import statistics
import subprocess

import megatron_formula

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
OTHERS = ("nanogpt", "llama-4d", "training-memory-blog")
FORMULA = "Megatron-LM's formula"


# Sizes of the public tokenizers that a command line names by file only.
VOCABULARIES = {"nemotron_2_256k.model": 256000}


def world_size(row):
    """(number of GPUs, whether it is a guess). Megatron-LM's recipes run tests named _1node on the 4 GPUs of a GB200 node. A row without a number gets
    pipeline x expert parallelism from the test's name; None: unknown."""
    if row["gpu"] == "GB200" and row["test_case"].endswith("_1node"):
        return 4, False
    if row["world_size"]:
        return row["world_size"], False
    named = re.search(r"pp(\d+)em?p(\d+)", row["test_case"])
    return int(named.group(1)) * int(named.group(2)) if named else None, True


def class_of(row):
    return row["cls"] + ("" if row["named_gpu"] else ", unnamed GPU") + (", GPUs not said" if world_size(row)[1] else "")


def is_barred(row):
    """Whether the bars for dense rows of named GPUs apply to the row."""
    return class_of(row) == "dense"


def command(build, row):
    words = [os.path.join(build, "memtrace"), "estimate", "--json", "--world-size", str(world_size(row)[0])]
    for file, vocabulary in VOCABULARIES.items():
        if any(file in word for word in row["argv"]):
            words += ["--set", f"vocab_size={vocabulary}"]
    if row["gpu"]:
        words += ["--gpu", row["gpu"]]
    if row["container"]:
        words += ["--set", "container=" + row["container"]]
    for name, value in row["env"].items():
        words += ["--env", f"{name}={value}"]
    return words + ["--", "pretrain_gpt.py"] + row["argv"]


def estimate(build, row):
    if not world_size(row)[0]:
        return {"why": "the row does not say how many GPUs there were"}
    done = subprocess.run(command(build, row), capture_output=True, text=True, timeout=120)
    if not done.stdout:
        lines = done.stderr.strip().split("\n")
        return {"why": next((line for line in lines if line.startswith("memtrace: memtrace: ")), lines[0])}
    said = json.loads(done.stdout)
    made = {e["system"]: e for e in said["estimates"]}
    others = {name: made[name]["total_bytes"] for name in OTHERS if name in made}
    try:
        others[FORMULA] = megatron_formula.total(said["config"])
    except (megatron_formula.Unsaid, KeyError):
        pass
    if "memtrace" not in made:
        return {"why": next(r["reason"] for r in said["refused"] if r["system"] == "memtrace")}
    return {**made["memtrace"]["per_stage"][-1], "others": others}


def error(predicted, measured):
    return 100.0 * (predicted - measured) / measured


def summary(errors):
    errors = [abs(e) for e in errors]
    return f"{statistics.median(errors):8.3f} {statistics.fmean(errors):8.3f} {max(errors):8.3f}"


def group_lines(results, key):
    groups = {}
    for row, got in results:
        groups.setdefault(key(row), []).append((row, got))
    for name in sorted(groups):
        rows = groups[name]
        known = [(r, g) for r, g in rows if "why" not in g]
        line = f"{name:44} {len(rows):4} {len(known):4} "
        if known:
            line += summary([g["steady"] for r, g in known]) + "  "
            line += summary([g["peak"] for r, g in known])
        print(line)


PAGE = """## Megatron-LM on real GPUs

`python3 tests/accuracy/accuracy_megatron.py ROWS.json --write` writes this section. The rows are not part of the project: exact command lines of
Megatron-LM's own functional tests, and the bytes that these tests measured on the last rank, on A100, H100 and GB200. The steady state is the allocated
memory after a step, the peak is the largest allocated memory. A row is estimated from its command line, environment, GPU and number of GPUs. Errors are
absolute values in per cent. If a row cannot be estimated, it is refused, with the missing option as the reason.

The bars are for dense rows of named GPUs: steady median 0.1 and mean 1, peak median 1 and mean 3. For the other classes the bar is a steady mean of 3.
"Unnamed GPU" means that the row does not name its GPU. "GPUs not said" means that the row does not give the number of GPUs. Then the number is guessed as
pipeline x expert parallelism from the test's name, which can be wrong, and the row is in a class of its own. Tests named `_1node` ran on the 4 GPUs of one
node of GB200, by Megatron-LM's recipe for them, even if the row says 8. If a vocabulary is only in a tokenizer's file, its size is given for the public
tokenizer that some rows name. The last columns are the documents' systems and Megatron-LM's own theoretical_memory_usage.py on the same rows: the mean error
of the peak, and in brackets the number of rows.

%s

By GPU and container, dense rows of named GPUs:

%s

Refused rows:

%s

The rows with the largest errors:

%s

Known reasons:

- `lts`, peak far too low: FlashAttention before 2.4.1 has no deterministic backward pass, so attention is unfused. Rows with the same command line
  were measured with both versions. The estimate follows `--attention-backend`.
- GB200 without `CUBLAS_WORKSPACE_CONFIG`, 10 %% of the steady state: PyTorch 2.12 changed the default workspace from 8.1 MiB to 32 MiB for each handle.
  Rows with the same command line were measured with both versions. The estimate follows `torch_version`; without it, a version before 2.12 is assumed.
- Experts, up to 4 %% of the peak too low: the estimate spreads the tokens evenly over the experts, a job does not. Three measurements of one command line
  on H100 (`tp4_ep2_etp2_pp2`) differ by 22 MB.
- Experts in deterministic mode, 0.5 to 4.6 %% of the peak too high on A100: since Megatron-core 0.15 the sum of the experts' results saves them, before it did
  not. Rows with the same command line (`4experts2parallel`) were measured with both versions. The estimate follows `megatron_core_version`; without it, a
  later version is assumed. `ep8_resume_torch_dist_dist_muon` is 5.4 %% too high on GB200 and 0.6 %% too low on H100: not explained.
- `fine_grained_offloading`, 2.1 and 2.5 %% of the peak too low: not explained beyond the experts' tokens.
- `defer_embedding_wgrad_compute` on A100, 25 MB of the steady state, the size of the output layer's weight: not explained. The error of the same test is
  below 0.5 %% on the other GPUs, so older software is the likely reason.
- 13 to 20 MiB of the steady state with four stages: four or five times 4,243,456 bytes, the size of a micro-batch's labels, loss mask and attention
  mask. Some runs still held these tensors, other runs of the same command line did not.
- `tp1_pp4_vp1_*`, 2.4 or 3.4 MiB on A100 and H100: the rows declare `expandable_segments:True`, under which no block has a tail. Without this option the
  estimate of `resume_torch_decoupled_lr`, `resume_torch_dist` and `resume_torch_dist_tunable_overlap` equals the measurement on A100 and H100, to
  1 KiB or to 1 MiB and 1 KiB: they were measured before the option was declared. On GB200 the estimate with the option is right.
- `cross_entropy_loss_fusion` on A100, 475 MB of the peak, which is in the first step there: not counted. The likely reason is torch.compile: in that step it
  measures the loss's kernels on a copy of the tensors that they change, the logits in fp32 (413 MB).
- `hybrid_*` on A100, 28 MiB of the steady state: the measured values are those of H100, to 1 KiB, where Transformer Engine's workspace is 28 MiB larger. One `lts` row
  has a sixth of the steady state of the same command line on H100.
- `mimo_*`, 1.8 GB of the peak: the measured peak does not grow when Adam's moments come, so it is reached before the end of the first step, likely when the
  checkpoint of the language model is loaded, in fp32, which is not counted.
- Half a MiB to 4 MiB of the steady state with pipeline parallelism: tails of up to 1 MiB that the allocator does not split off. An optimizer state
  takes the cached block that fits best, so every allocation of the first step has an effect. The estimate assumes that tensors sent between stages are
  free at once: PyTorch 2.15 records no stream for them, and with an older version 1F1B waits for the device after each exchange.
  The estimate also assumes that torch.compile measures its kernels in the first step, because no earlier run left a cache of them.

The next table is about dense rows of named GPUs that the estimate does not distinguish: same GPU, same container, same estimate, other paths or options
("twins"). The last columns are the error if the measurement of a twin is used as the estimate of a row. One reason for this error is the jobs' timing; another
may be options with an effect that is not counted. Twins that differ by more than 0.1 %% differ mostly in `NVTE_ALLOW_NONDETERMINISTIC_ALGO`,
`--use-tp-pp-dp-mapping`, `--expert-tensor-parallel-size` or `--calculate-per-token-loss`.

%s
"""
HEADS = ["class", "rows", "estimated", "steady median", "mean", "worst", "peak median", "mean", "worst", *OTHERS, FORMULA]


def markdown(heads, lines):
    return "\n".join(["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)] +
                     ["| " + " | ".join(str(cell) for cell in line) + " |" for line in lines])


def group_cells(results, key):
    groups = {}
    for row, got in results:
        groups.setdefault(key(row), []).append(got)
    for name in sorted(groups):
        known = [got for got in groups[name] if "why" not in got]
        cells = [name, len(groups[name]), len(known)]
        for what in ("steady", "peak"):
            errors = [abs(got[what]) for got in known]
            cells += ["%.3f" % f(errors) for f in (statistics.median, statistics.fmean, max)] if known else ["-"] * 3
        for name in (*OTHERS, FORMULA):
            errors = [abs(got["beside"][name]) for got in known if name in got["beside"]]
            cells.append("%.1f (%d)" % (statistics.fmean(errors), len(errors)) if errors else "-")
        yield cells


def is_pipelined(row):
    words = dict(zip(row["argv"], row["argv"][1:]))
    return int(words.get("--pipeline-model-parallel-size", 1)) > 1


def twins(results):
    """Each barred row with the errors of its twins: rows with the same estimate, whose measurement is used as the estimate of this row."""
    known = [(r, g) for r, g in results if "why" not in g and is_barred(r)]
    same = {}
    for row, got in known:
        same.setdefault((row["gpu"], row["container"], got["steady_bytes"], got["peak_bytes"]), []).append(row)
    for row, got in known:
        others = same[row["gpu"], row["container"], got["steady_bytes"], got["peak_bytes"]]
        yield row, got, [abs(error(o["steady_allocated_bytes"], row["steady_allocated_bytes"])) for o in others if o is not row]


TWIN_HEADS = ["rows", "all", "steady median", "within 0.1 %", "with twins", "median", "within 0.1 %", "twins' median", "within 0.1 %"]


def twin_cells(results):
    def both(errors):
        return ["%.3f" % statistics.median(errors), "%.0f %%" % (100 * statistics.fmean(e <= 0.1 for e in errors))]

    found = list(twins(results))
    for title, piped in (("no pipeline", False), ("pipeline", True)):
        rows = [(abs(got["steady"]), others) for row, got, others in found if is_pipelined(row) == piped]
        paired = [(own, others) for own, others in rows if others]
        if not paired:
            continue
        share = statistics.fmean(statistics.fmean(e <= 0.1 for e in others) for _, others in paired)
        yield [title, len(rows), *both([own for own, _ in rows]), len(paired), *both([own for own, _ in paired]),
               "%.3f" % statistics.median(statistics.median(others) for _, others in paired), "%.0f %%" % (100 * share)]


def reasons(results):
    """[number of rows, message], without the values of the options."""
    counts = {}
    for _, got in results:
        if "why" in got:
            why = re.sub(r"^(memtrace: )+| \(--[^)]*\)|\(in a configuration file.*", "", got["why"])
            why = why.replace("unmodelled_options is ", "").strip()
            counts[why] = counts.get(why, 0) + 1
    return sorted(([count, why.replace("|", "\\|")[:150]] for why, count in counts.items()), reverse=True)


def write(results):
    """Replaces the section in docs/accuracy.md, or adds it at the end."""
    dense = [(r, g) for r, g in results if is_barred(r)]
    known = [(r, g) for r, g in results if "why" not in g and r["named_gpu"]]
    worst = sorted(known, key=lambda x: -max(abs(x[1]["steady"]), abs(x[1]["peak"])))[:16]
    rows = [[r["test_case"], r["gpu"], r["container"], "%+.2f" % g["steady"], "%+.2f" % g["peak"]] for r, g in worst]
    text = PAGE % (markdown(HEADS, group_cells(results, class_of)),
                   markdown(HEADS, group_cells(dense, lambda r: f"{r['gpu']}, {r['container']}")),
                   markdown(["rows", "why"], reasons(results)),
                   markdown(["row", "GPU", "container", "steady", "peak"], rows), markdown(TWIN_HEADS, twin_cells(results)))
    name = os.path.join(ROOT, "docs", "accuracy.md")
    with open(name, encoding="utf-8") as f:
        before = f.read().split(PAGE.split("\n", 1)[0])[0].rstrip()
    with open(name, "w", encoding="utf-8") as f:
        f.write(before + "\n\n" + text)


def options_of(rows):
    """{option of the command lines: [its first value, number of rows with it]}"""
    found = {}
    for row in rows:
        words = row["argv"]
        for i, word in enumerate(words):
            if word.startswith("--"):
                follows = i + 1 < len(words) and not words[i + 1].startswith("--")
                first = found.setdefault(word, [words[i + 1] if follows else None, 0])
                first[1] += 1
    return found


def judged():
    """{field that the model does not read: (kind, reason)}"""
    name = os.path.join(ROOT, "analyzer", "megatron", "options.def")
    with open(name, encoding="utf-8") as f:
        rows = re.findall(r'^(STOPS|NOTED|IGNORED)\((\w+),(?: "[^"]*",)? "([^"]*)"\)', f.read(), re.M)
    return {field: (kind.lower(), reason) for kind, field, reason in rows}


def option_line(build, option, value, fields):
    words = [option] + ([value] if value else [])
    done = subprocess.run([os.path.join(build, "memtrace"), "estimate", "--show-config", "--json", "--",
                           "pretrain_gpt.py", *words], capture_output=True, text=True)
    if done.returncode:
        return "ERROR: " + done.stderr.strip()
    said = json.loads(done.stdout)
    read = [entry for entry in said["config"] if entry["source"] == option]
    if any("unknown key" in note for note in said["notes"]):
        return "UNKNOWN"
    if read and read[0]["key"] == "unmodelled_options":
        return "refused: " + read[0]["value"]
    if not read:
        return "no effect"
    return f"{read[0]['key']}: " + " ".join(fields.get(read[0]["key"], ("read", ""))).strip()


def print_options(build, rows):
    fields = judged()
    for option, (value, count) in sorted(options_of(rows).items()):
        print(f"{option:48} {count:4}  {option_line(build, option, value, fields)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows")
    parser.add_argument("--build", default=os.path.join(ROOT, "build"))
    parser.add_argument("--rows", dest="each", action="store_true", help="print every row")
    parser.add_argument("--worst", type=int, default=10)
    parser.add_argument("--options", action="store_true", help="print the effect of every option of the rows")
    parser.add_argument("--write", action="store_true", help="write the section of docs/accuracy.md")
    parser.add_argument("--select", default="", help="use only tests whose names contain this text")
    options = parser.parse_args()
    with open(options.rows, encoding="utf-8") as f:
        rows = json.load(f)
    if options.options:
        print_options(options.build, rows)
        return
    rows = [r for r in rows
            if r["steady_allocated_bytes"] and r["peak_allocated_bytes"]
            and options.select in r["test_case"]]
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        results = list(zip(rows, pool.map(lambda r: estimate(options.build, r), rows)))
    for row, got in results:
        if "why" not in got:
            got["steady"] = error(got["steady_bytes"], row["steady_allocated_bytes"])
            got["peak"] = error(got["peak_bytes"], row["peak_allocated_bytes"])
            got["beside"] = {name: error(total, row["peak_allocated_bytes"]) for name, total in got["others"].items()}
    if options.write:
        write(results)
    if options.each:
        for row, got in results:
            name = f"{row['test_case'][:76]:76} {str(row['gpu'])[:5]} {row['container']}"
            if "why" in got:
                print(f"{name} -- {got['why']}")
                continue
            print(f"{name} {got['steady']:8.3f} {got['peak']:8.3f}  "
                  f"{got['steady_bytes'] - row['steady_allocated_bytes']:13.0f} "
                  f"{got['peak_bytes'] - row['peak_allocated_bytes']:13.0f}  {got['peak_phase']}")
    print(f"{'%':44} rows  est.  steady: median, mean, max    peak: median, mean, max")
    group_lines(results, class_of)
    group_lines([(r, g) for r, g in results if is_barred(r)], lambda r: f"dense, {r['gpu']}, {r['container']}")
    print("; ".join(TWIN_HEADS))
    for cells in twin_cells(results):
        print("  ".join(map(str, cells)))
    known = [(r, g) for r, g in results if "why" not in g and r["named_gpu"]]
    for what in ("steady", "peak"):
        print(f"worst {what}:")
        for row, got in sorted(known, key=lambda x: -abs(x[1][what]))[:options.worst]:
            print(f"  {got[what]:8.2f} % {row['test_case']} {row['gpu']} {row['container']}")


if __name__ == "__main__":
    main()
