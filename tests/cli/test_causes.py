"""docs/causes.md equals the output of `memtrace report --rules`. test_causes.py --write writes it."""
import os
import re
import subprocess
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.append(os.path.join(ROOT, "tests", "population"))
import confidence  # noqa: E402
from causes import CAUSES  # noqa: E402

MEMTRACE = os.path.join(os.environ.get("TEST_BUILD", os.path.join(ROOT, "build")), "memtrace")
DOC = os.path.join(ROOT, "docs", "causes.md")
HEAD = """# Causes

The causes that `memtrace report` can name if a job runs out of memory or wastes it. The table is `analyzer/diagnose/rules.def`, as `memtrace report --rules`
prints it. A {name} stands for a quantity of the trace, and a [part] is left out if its first quantity is 0. A trace cannot show the last causes; their rows give the reason.

| cause | title | message | source, or reason |
|---|---|---|---|
"""


def rows():
    """(id, title, message or None, source or the reason why the cause is undetectable)"""
    text = subprocess.run([MEMTRACE, "report", "--rules", "--color", "never"], check=True, stdout=subprocess.PIPE, text=True).stdout
    found = []
    for line in text.splitlines():
        head = re.match(r"([A-Z0-9_]{5,})  (.*)", line)
        field = re.match(r"([a-z]+) +(.*)", line)
        if head:
            found.append([*head.groups(), None, None])
        elif field:
            at = 2 if field.group(1) in ("says", "message") else 3
            found[-1][at] = field.group(2)
        else:
            found[-1][at] += " " + line.strip()
    return found


def document():
    return HEAD + "".join("| %s | %s | %s | %s |\n" % (name, title, says or "undetectable", source) for name, title, says, source in rows())


class Causes(unittest.TestCase):
    def test_document(self):
        with open(DOC) as f:
            self.assertEqual(f.read(), document(), "run tests/cli/test_causes.py --write")

    def test_each_is_explained(self):
        for name, title, says, source in rows():
            self.assertTrue(title and source, name)

    def test_population(self):
        """The rules that name the faults of tests/population rightly are rules."""
        known = {name for name, _, says, _ in rows() if says}
        self.assertEqual({rule for named in CAUSES.values() for rule in named} - known, set())

    def test_confidence(self):
        """The frequencies of the rules are the sums of the measured sets."""
        with open(confidence.TABLE) as f:
            self.assertEqual(f.read(), confidence.text(confidence.kept_sets()), "run tests/population/table.py --write SET")


if __name__ == "__main__":
    if "--write" in sys.argv:
        with open(DOC, "w") as f:
            f.write(document())
    else:
        unittest.main()
