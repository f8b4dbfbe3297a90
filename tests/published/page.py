"""Writes docs/published.md from tests/published/results/*.json: page.py [--write]. Without --write it prints the page."""
import collections
import decimal
import json
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
PAGE = os.path.join(ROOT, "docs", "published.md")
ALL_ROWS = 60  # a source with more rows shows only those that are not exact
HEAD = """# Published measurements

Others have published what their jobs took on real GPUs. `make published` runs these jobs on the simulated device, with the real PyTorch, and writes this
page; `make published SOURCE=NAME` runs one source. The jobs are in `tests/published/sources/` and `tests/published/jobs/`. Their weights and data are
random, of the published shapes, and they run a few steps. PyTorch and other packages come from PyPI. A publisher's own script is started from a clone in
`PUBLISHED_CHECKOUTS`; a source whose clone is missing keeps its rows.

A row is exact if the simulated number, rounded or cut off at the last digit that the publisher printed, is the published one. The estimate is `memtrace
estimate --system memtrace` from the job's declared configuration: by formula, or "(run)" by a run of transformers' model of that architecture; a dash
means that it has neither. Of the rows
that are not exact, "ours" counts those with a known fault of the simulated device, "likely" those with a cause that was not tested, and "not found" those
whose cause, or a part of it, was not found. Estimates of Megatron-LM's jobs on real GPUs are in [accuracy.md](accuracy.md).
"""


WORDS = "cause", "ours", "estimate_cause"  # of a row; they change without a run


def declared(name):
    """What tests/published/sources/ says of a source: {} if it has a script of its own."""
    path = os.path.join(HERE, "sources", name + ".json")
    if not os.path.exists(path):
        return {}
    with open(path) as f:
        return json.load(f)


def with_words(source, name):
    """A source's results, with the words that its declaration has now."""
    said = declared(name)
    rows = {(r["job"], r["metric"]): {**{w: run[w] for w in WORDS if w in run}, **r} for run in said.get("runs", []) for r in run["rows"]}
    for row in source["rows"]:
        row.update({w: v for w, v in rows.get((row["job"], row["metric"]), {}).items() if w in WORDS})
    source.update({k: said[k] for k in ("source", "url", "note") if k in said})
    return {**source, "name": name}


def load():
    folder = os.path.join(HERE, "results")
    found = []
    for name in sorted(os.listdir(folder)):
        if name.endswith(".json"):
            with open(os.path.join(folder, name)) as f:
                found.append(with_words(json.load(f), name[:-len(".json")]))
    return found


def value(number):
    return decimal.Decimal(str(number))


def exact(published, ours):
    """Equal at the last digit of the published number, rounded or cut off."""
    published, ours = value(published), value(ours)
    step = decimal.Decimal(1).scaleb(published.as_tuple().exponent)
    return abs(ours - published) <= step / 2 or published <= ours < published + step


def difference(row, key="simulated"):
    """In per cent of the published number."""
    return float((value(row[key]) - value(row["published"])) / value(row["published"]) * 100)


def grade(row):
    if row["simulated"] is None:
        return "not run"
    if exact(row["published"], row["simulated"]):
        return "exact"
    off = abs(difference(row))
    return "within 0.1 %" if off <= 0.1 else "within 1 %" if off <= 1 else "more"


GRADES = "exact", "within 0.1 %", "within 1 %", "more"


def number(n, unit):
    if n is None:
        return "-"
    if isinstance(n, str):
        return n
    return "{:,}".format(n) if isinstance(n, int) else "{:,.2f}".format(n) if abs(n) >= 100 else "%.4f" % n


def off_by(row, key):
    if row.get(key) is None:
        return "-"
    if exact(row["published"], row[key]):
        return "0"
    return "%+.3f %%" % difference(row, key)


def causes(rows):
    """The causes of the rows that are not exact, the most frequent first."""
    counted = collections.Counter(r["cause"] or "not found" for r in rows if grade(r) not in ("exact", "not run"))
    return "; ".join("%s (%d)" % c for c in counted.most_common()) or "-"


def known(row):
    """How far the difference of a row that is not exact is explained: ours, likely, not found, or theirs."""
    if not row["cause"] or "not found" in row["cause"]:
        return "not found"
    if "not tested" in row["cause"]:
        return "likely"
    return "ours" if row["ours"] else "theirs"


def by_family(sources):
    rows = [r for s in sources for r in s["rows"]]
    families = sorted({r["family"] for r in rows})
    lines = ["| family | rows | exact | within 0.1 % | within 1 % | more | ours | likely | not found | estimated within 1 % | cause of the rest |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for name, those in [(f, [r for r in rows if r["family"] == f]) for f in families] + [("all", rows)]:
        counted = collections.Counter(map(grade, those))
        estimated = [r for r in those if r.get("estimate") is not None]
        close = sum(exact(r["published"], r["estimate"]) or abs(difference(r, "estimate")) <= 1 for r in estimated)
        explained = collections.Counter(known(r) for r in those if grade(r) not in ("exact", "not run"))
        lines.append("| %s | %d | %s | %s | %s | %s |" % (name, len(those), " | ".join(str(counted[g]) for g in GRADES),
                                                       " | ".join(str(explained[k]) for k in ("ours", "likely", "not found")),
                                                       "%d of %d" % (close, len(estimated)) if estimated else "-",
                                                       causes(those) if name != "all" else "-"))
    return lines


def of_source(source):
    rows = source["rows"]
    lines = ["", "## " + source["source"], "", "<%s>" % source["url"], "", "`%s`" % source["command"], ""]
    if source.get("note"):
        lines += [source["note"], ""]
    versions = sorted({(r["measured_with"], r["simulated_with"]) for r in rows})
    if len(versions) == 1:
        lines += ["Measured with %s, simulated with %s." % versions[0], ""]
    if len(rows) > ALL_ROWS:
        lines += ["%d of its %d rows are exact; the others:" % (sum(grade(r) == "exact" for r in rows), len(rows)), ""]
        rows = [r for r in rows if grade(r) != "exact"]
    lines += ["| job | GPU | metric | published | simulated | difference | estimate | difference | cause |", "|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        measured = "" if len(versions) == 1 else "measured with %s, simulated with %s" % (r["measured_with"], r["simulated_with"])
        cause = "; ".join(filter(None, [r["cause"] if off_by(r, "simulated") != "0" else "", r.get("estimate_cause", ""), measured]))
        lines.append("| %s | %s | %s | %s %s | %s | %s | %s | %s | %s |" % (
            r["job"], r["gpu"], r["metric"], number(r["published"], r["unit"]), r["unit"], number(r["simulated"], r["unit"]), off_by(r, "simulated"),
            number(r.get("estimate"), r["unit"]) + (" (run)" if r.get("estimated_by") == "run" else ""), off_by(r, "estimate"), cause))
    reasons = sorted({r["no_estimate"] for r in source["rows"] if r.get("no_estimate")})
    if reasons:
        lines += ["", "Not estimated: " + "; ".join(reasons) + "."]
    return lines


def page():
    sources = load()
    jobs = {(s["name"], r["job"], r["gpu"], r["measured_with"]) for s in sources for r in s["rows"]}
    lines = ["%d jobs of %d sources, %d rows." % (len(jobs), len(sources), sum(len(s["rows"]) for s in sources)), "", *by_family(sources)]
    for source in sources:
        lines += of_source(source)
    return HEAD + "\n" + "\n".join(lines) + "\n"


if __name__ == "__main__":
    if sys.argv[1:] == ["--write"]:
        with open(PAGE, "w") as f:
            f.write(page())
    else:
        sys.stdout.write(page())
