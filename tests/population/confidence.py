"""How often each rule was right at first sight: the sets of draws and of scripts in measured.json, and their sum in analyzer/diagnose/confidence.def."""
import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))
SETS = os.path.join(HERE, "measured.json")
TABLE = os.path.join(HERE, "..", "..", "analyzer", "diagnose", "confidence.def")


def kept_sets():
    """{set: {rule: [right, named]}}"""
    with open(SETS) as f:
        return json.load(f)


def text(sets):
    """confidence.def: the sum of all sets, because a rule that is seldom first has few draws in one of them."""
    rules = sorted({rule for counts in sets.values() for rule in counts})
    sums = [(rule, *map(sum, zip(*[counts[rule] for counts in sets.values() if rule in counts]))) for rule in rules]
    lines = ["/*", " * How often each rule was right when it was the first finding, in draws and scripts that it met for the first time: MEASURED(rule, right, named).",
             " * Written by tests/population/table.py and scripts.py of the sets of tests/population/measured.json.", " */"]
    return "\n".join(lines + ["MEASURED(%s, %d, %d)" % row for row in sums]) + "\n"


def keep(name, counts):
    """Adds a set, or puts it in the place of the one of that name; counts: {rule: (right, named)}."""
    sets = {**kept_sets(), name: {rule: list(n) for rule, n in counts.items()}}
    with open(SETS, "w") as f:
        f.write(json.dumps(sets, indent=1, sort_keys=True) + "\n")
    with open(TABLE, "w") as f:
        f.write(text(sets))
