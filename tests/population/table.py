"""What memtrace said of drawn jobs, as the tables of docs/population.md and the confidence of each rule.

table.py RESULTS... [--again DIRECTORY] [--write SET | --add SET] [--development]

RESULTS: files of draw.py --results. --again: asks memtrace anew, of the traces that draw.py --keep left. --write: adds this set of draws to those whose
counts are in counted.json, writes docs/population.md of all sets, puts its tables of all draws, of confidence and of kinds of faults into
docs/validation.md, adds this set to measured.json, and writes the sum of its sets to analyzer/diagnose/confidence.def. --add: the last two alone.
--development: only the draws that the rules may be developed with, each wrong one in a line.
"""
import argparse
import collections
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.join(HERE, "..", "..")
sys.path[:0] = [HERE, os.path.join(HERE, "..")]
import confidence  # noqa: E402
import core  # noqa: E402
from causes import GROWS, OTHER_REMEDY, OUTSIDE, REMEDIES  # noqa: E402
from draw import MODULES, judged, report  # noqa: E402
from held_out import FAMILIES, GROUPS, NEW, NEW_FAMILIES  # noqa: E402

COUNTED = "right", "wrong", "unnamed"
LEVELS = "high", "medium", "low"
KEPT = os.path.join(HERE, "counted.json")
PARTS = {"new families": "families that were made after the rules", "new faults": "other families, with faults that were made after the rules", "others": "the other draws"}
SAME = 0.999  # of a level: PyTorch's allocator gives some blocks up to 1 MiB more than they need, by what its cache has, which differs on a larger card


def is_held_out(r):
    return r["family"] in FAMILIES or r["fault_group"] in GROUPS


def share(right, all_):
    return "%d of %d" % (right, all_) + (" (%.0f %%)" % (100 * right / all_) if all_ else "")


def counts_of_rules(results):
    """For each rule: how often it was the first finding, and how often rightly."""
    counts = collections.defaultdict(lambda: [0, 0])
    for r in results:
        if r.get("rule"):
            counts[r["rule"]][0] += r["outcome"] == "right"
            counts[r["rule"]][1] += 1
    return counts


def needed_less(r):
    """What the fixed job needs less than the faulty one; where the fault takes more in each step, up to the end of the step in which that died.

    memtrace may count a step less, if the job does something before its first step: the job died in no step that ended below the level it had reached.
    It counts more where a step has several optimizers; then the level alone tells the step. What comes after the last step is over at the job's end.
    None if it is unknown: a job that needs more and more and has no steps, or whose framework's loop does not tell its peak in each;
    and a fault whose fixed form is not what the remedy says.
    """
    by_step = r.get("faulty_by_step") or []
    if r["fault"] in OTHER_REMEDY or REMEDIES.get(r["cause"]) == "half" and parts_of(r) != 2:
        return None
    if r["cause"] not in GROWS:
        return r["faulty_peak"] - r["fixed_peak"]
    if not r.get("step") or not by_step:
        return None
    step = next((n for n, peak in enumerate(by_step, 1) if peak >= SAME * (r.get("level") or 0)), len(by_step) + 1)
    if r["cause"] in OUTSIDE:
        step = 0  # the level is of tensors
    if r["step"] <= len(by_step):
        step = max(step, r["step"])
    return ([r["fixed_peak"], *by_step, r["faulty_peak"]][step] - r["fixed_peak"]) or None


def parts_of(r):
    """Into how many parts the fixed form cuts a batch that is too large; None if the fault does not say."""
    return getattr(core.FAULTS[r["fault"]](r["seed"]), "parts", None)


def savings(results):
    """Of right findings with a saving, how many are within 10 % of what the fixed job needs less."""
    told = [r for r in results if r["outcome"] == "right" and r.get("saving") and needed_less(r) is not None]
    near = [r for r in told if abs(r["saving"] - needed_less(r)) <= 0.1 * needed_less(r)]
    return near, told


def least_savings(results):
    """Of right findings that tell the least saving, how many of the fixed jobs need that much less, but for 10 %."""
    told = [r for r in results if r["outcome"] == "right" and (r.get("bound") or [""])[0] == "at least" and needed_less(r) is not None]
    return [r for r in told if r["bound"][1] <= 1.1 * needed_less(r)], told


def markdown(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(str, row)) + " |" for row in rows] + [""]


def part_of(r):
    """Jobs and faults that people wrote who had not read the rules are apart."""
    return "new families" if r["family"] in NEW_FAMILIES else "new faults" if r["fault_group"] in NEW else "others"


def verdicts(results, key):
    """{key: [draws, right, wrong with "high confidence", not named]}"""
    counts = collections.defaultdict(lambda: [0] * 4)
    for r in results:
        told = 1, r["outcome"] == "right", r["outcome"] == "wrong" and r["confidence"] == "high", r["outcome"] == "unnamed"
        counts[r[key]] = [n + m for n, m in zip(counts[r[key]], told)]
    return counts


def counted(results, dropped):
    """What the pages tell of a set of draws."""
    counts = {"dropped": {why: [n] for why, n in dropped.items()}, "rule": counts_of_rules(results)}
    for key in "family", "fault", "cause":
        counts[key] = verdicts(results, key)
    counts["confidence"] = {level: n[1::-1] for level, n in verdicts((r for r in results if r.get("rule")), "confidence").items()}
    counts["part"] = verdicts(({**r, "part": part_of(r)} for r in results), "part")
    for part, n in counts["part"].items():
        mine = [r for r in results if part_of(r) == part]
        counts["part"][part] = [*n[:3], *map(len, (*savings(mine), *least_savings(mine)))]
    return counts


def summed(sets):
    """The counts of several sets."""
    sums = collections.defaultdict(dict)
    for counts in sets:
        for key, rows in counts.items():
            for name, n in rows.items():
                sums[key][name] = list(map(sum, zip(n, sums[key].get(name, [0] * len(n)))))
    return sums


def summary(counts):
    """Rows for all draws, and for the parts."""
    rows = [("all draws", list(map(sum, zip(*counts["part"].values()))))] + [(title, counts["part"][part]) for part, title in PARTS.items() if part in counts["part"]]
    return markdown(("draws", "number", "first finding right", "wrong with high confidence", "saving within 10 %", "at least that much"),
                    [(title, n[0], share(n[1], n[0]), share(n[2], n[0]), share(*n[3:5]), share(*n[5:7])) for title, n in rows])


def calibration(counts):
    return markdown(("confidence", "right"), [(level, share(*counts["confidence"].get(level, (0, 0)))) for level in LEVELS])


def table_of(counts, key, title, order=lambda row: row[0]):
    return markdown((title, "first finding right", "wrong with high confidence", "not named"),
                    [(name, share(n[1], n[0]), *n[2:]) for name, n in sorted(counts[key].items(), key=order)])


def kinds(counts):
    """Of faults: the causes of the draws, the most frequent ones first."""
    return table_of(counts, "cause", "kind of fault", lambda row: (-row[1][0], row[0]))


# What counts as right since these draws were made, and why: the tables of a page count as it was then.
WIDER = [
    "`joint_of_all_frames`: HUGE_TENSORS is right too. The tensors of all frames, labels and entries of the vocabulary are of one line, which it names, and it says to",
    "  compute parts, as the fixed form does; LOGITS_SPIKE was the only right answer.",
    "`scores_of_candidates`, `recycled_passes_kept`: LOSSES_SUMMED is right too. It says that several forward passes are live with no backward pass between them, and since then also to put",
    "  no_grad() around those that are only compared. Before the first backward pass nothing tells a sum of losses from that.",
    "`prefetch_without_limit`: LEAK_GRAPH_RETAINED and EARLIER_STEP_KEPT are right too, as for other batches that stay on the GPU: they name the line that fills the",
    "  queue, where it fills over several steps. `lightning_outputs_kept`: SECOND_MODEL is right too, as for other copies of the weights. `saved_tensors_kept`: GRAPH_KEPT",
    "  is right too, which says what is live, the activations of earlier steps, and to look for a list that hooks fill.",
    "`static_cache_too_long`, `finished_caches_kept`, `predictions_kept` and others of their causes: EVAL_TENSORS, a rule that there was not, is right.",
    "`recycled_passes_kept`, `reference_with_graph` and others of their causes: CALL_UNUSED, a rule that there was not, is right: it names a call whose graph no backward pass",
    "  uses, and no_grad() around it. `private_gradients`, `gradients_of_tasks` and others: GRADIENT_SETS, a rule that there was not, is right.",
    "`all_batches_first` and others of its cause: DATA_IN_SETUP, a rule that there was not, is right where the data comes before the first step.",
    "`inputs_on_modules`: HOOKS_STORE, a rule that there was not, is right: it names the hook. `dense_gradient_of_a_table`: TABLE_GRADIENT, a rule that there was not,",
    "  is right: it says sparse=True.",
    "`hooks_added_each_time`: HOOKS_STORE is right too, which names the hook; `reduction_bucket_too_large`: ZERO_COMM_BUCKETS, which names the buckets. `calibration_inputs`",
    "  and others of its cause: LAYERS_STORED, a rule that there was not, is right: it tells layers whose blocks stay from call to call from a graph.",
    "`scorer_stays`, `encoders_stay` and others of their causes: LATE_MODEL, a rule that there was not, is right: it names a model that came between steps. `bias_of_every_layer`: DATA_ON_GPU is",
    "  right as DATA_IN_SETUP is, which says the same before the first step: both say since then to share what is a constant of each layer.",
    "`cache_for_each_branch`: KV_CACHE_COPIED, a rule that there was not, is right. `trials_of_a_line_search` and others of its cause: EVAL_GRAPH_KEPT is right, which says no_grad() around a call that no",
    "  backward pass uses. `all_forward_first` and others of its cause: LOSSES_OF_A_LOOP, a rule that there was not, is right as LOSSES_SUMMED is.",
    "`dtype_left_out`, `linear_after_flatten`: STATIC_PEAK, a rule that there was not, is right, as STATIC_OVER_BUDGET is: it says that weights take most, and to load them in 16 bits or to",
    "  shard them",
    "`k_head_only`, `s_linear_probe`, `reference_with_graph`, `u_two_teachers` and others of their causes: UNOPTIMIZED_GRAPH is right, which names parameters that no optimizer has and says",
    "  requires_grad_(False), as the fixed forms do, or no_grad(). It was one of the script's source alone when the draws before seed 10701 were judged.",
]


def page(counts):
    dropped = sorted(((why, *n) for why, n in counts["dropped"].items()), key=lambda row: -row[1])
    lines = ["# Jobs with injected faults", "",
             "Made by `tests/population/draw.py` and `tests/population/table.py --write`: jobs of real PyTorch and its frameworks on the simulated device,",
             "with a fault drawn at random, on a card between the peaks without and with the fault. The fixed form of each job is known, so the cause and",
             "what its remedy saves are known too. %d draws count; of %d others %s." % (
                 sum(n[0] for n in counts["part"].values()), sum(n for _, n in dropped), ", ".join("%d: %s" % (n, why) for why, n in dropped)), ""]
    lines += summary(counts)
    lines += ["Families that were made after the rules: %s; faults: those of `faults_%s.py`." % (
        ", ".join(sorted(NEW_FAMILIES)), ".py`, `faults_".join(sorted(NEW))), ""]
    lines += ["## What counts as right, and did not at first", "", "BUFFERS_LARGE, CALL_UNUSED, DOUBLE_FROM_THE_START, EVAL_MODE_GRAPH, FIRST_MODEL_GRAPH, GENERATOR_GRAPH, GRADIENT_SETS, HOOKS_STORE, LATE_MODEL, LAYERS_STORED, "
              "LOSS_NETWORK_GRAPH, ROLLOUT_GRAPH, STATIC_PEAK, TABLE_GRADIENT, TEACHER_GRAPH, UNOPTIMIZED_GRAPH and WIDE_LABELS are newer than many causes of faults.", ""] + [line if line.startswith(" ") else "- " + line for line in WIDER] + [""]
    lines += ["## Confidence", "", "As it was told, by the table of the draws before these; `analyzer/diagnose/confidence.def` has the sum of these, of the sets before and of the whole scripts below (`tests/population/measured.json`).", ""] + calibration(counts)
    lines += ["## Families of jobs", ""] + table_of(counts, "family", "family")
    lines += ["## Faults", ""] + table_of(counts, "fault", "fault")
    lines += ["## First findings", ""] + markdown(("rule", "right"), [(rule, share(*n)) for rule, n in sorted(counts["rule"].items())])
    return "\n".join(lines)


def write(path, text):
    with open(os.path.join(ROOT, path), "w") as f:
        f.write(text)


def read(path):
    with open(os.path.join(ROOT, path)) as f:
        return f.read()


def with_table(text, table):
    """A page with the lines of a table in the place of the one with the same first two columns."""
    head = re.escape("|".join(table[0].split("|")[:3]) + "|")
    text, found = re.subn(r"(?m)^%s.*\n(\|.*\n)*" % head, lambda _: "\n".join(line for line in table if line) + "\n", text)
    if found != 1:
        sys.exit("the page has %d tables that begin with %s" % (found, table[0]))
    return text


def put_table(path, table):
    write(path, with_table(read(path), table))


def whole_scripts(path):
    """The section of the page that scripts.py writes."""
    return "".join(read(path).partition("\n## Whole scripts\n")[1:])


def pages(sets):
    """{path: text} of the pages that tell of all sets."""
    of_all, validation = summed(sets.values()), read("docs/validation.md")
    for table in summary(of_all), calibration(of_all), kinds(of_all):
        validation = with_table(validation, table)
    return {"docs/population.md": page(of_all) + whole_scripts("docs/population.md"), "docs/validation.md": validation}


def publish(name, counts):
    """Keeps the counts of a set, and makes the pages of all sets anew."""
    sets = {**json.loads(read(KEPT)), name: counts}
    write(KEPT, "{\n" + ",\n".join("%s: %s" % (json.dumps(k), json.dumps(v, sort_keys=True)) for k, v in sorted(sets.items())) + "\n}\n")
    for path, text in pages(sets).items():
        write(path, text)


def load(files, directory):
    results = []
    for name in files:
        with open(name) as f:
            results += map(json.loads, f)
    if directory:
        for r in results:
            if r["outcome"] in COUNTED:
                for key in "rule", "confidence", "saving", "findings":
                    r.pop(key, None)
                r.update(judged(r, report(os.path.join(directory, "%04d" % r["draw"], "traces"))))
    return results


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("results", nargs="+")
    parser.add_argument("--again")
    parser.add_argument("--write", metavar="SET", help="the name of the set of draws: their seeds")
    parser.add_argument("--add", metavar="SET", help="the same, of draws that are not the page's")
    parser.add_argument("--development", action="store_true")
    options = parser.parse_args()
    core.load(m for m in MODULES if m.startswith("faults_"))
    results = load(options.results, options.again)
    dropped = collections.Counter(r["outcome"] for r in results if r["outcome"] not in COUNTED)
    results = [r for r in results if r["outcome"] in COUNTED]
    if options.development:
        results = [r for r in results if not is_held_out(r)]
        for r in results:
            if r["outcome"] != "right":
                print("%04d %-22s %-24s %-22s %s" % (r["draw"], r["job"], r["fault"], r["cause"], (r.get("findings") or ["-"])[:4]))
    counts = counted(results, dropped)
    if options.write:
        publish(options.write, counts)
    if options.write or options.add:
        confidence.keep(options.write or options.add, counts_of_rules(results))
    print("\n".join(summary(counts) + calibration(counts)))


if __name__ == "__main__":
    main()
