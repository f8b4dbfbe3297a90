"""The examples in the pages about estimate, plan and configurations run, and print the lines that the page shows."""
import json
import os
import re
import shlex

from harness import Case, MEMTRACE, ROOT

DOCS = os.path.join(ROOT, "docs", "man")


def examples(text):
    """(command, shown lines) of each "$ memtrace …" with output; "..." stands for omitted lines."""
    text = text.replace("\\&", "")
    found = re.findall(r"^\$ memtrace ((?:estimate|plan) .*)\n((?:(?!\$ |\.Ed|```).*\n)*)", text, re.M)
    return [(c, shown.splitlines()) for c, shown in found if shown.strip()]


class Examples(Case):
    def check(self, text, least):
        found = examples(text)
        self.assertGreaterEqual(len(found), least)
        for command, shown in found:
            done = self.run_([MEMTRACE, *shlex.split(command)], status=None, COLUMNS=80)
            printed = (done.stdout if done.stdout else done.stderr).splitlines()
            at, gap = 0, False
            for line in shown:
                if line == "...":
                    gap = True
                    continue
                if gap:  # anywhere below
                    self.assertIn(line, printed[at:], command)
                    at = printed.index(line, at)
                self.assertEqual(printed[at:at + 1], [line], command)
                at, gap = at + 1, False
            self.assertTrue(gap or at == len(printed), command)

    def files_of(self, page):
        """Creates the files of the page: "with NAME.json holding {…}", and "and NAME.json {…}"."""
        for name, text in re.findall(r"\b([\w.-]+\.json)\s+(?:holding\s+)?(\{[^.]*?\})(?=[:.]?\n|\s+and )", page):
            with open(os.path.join(self.dir, name), "w") as f:
                json.dump(json.loads(text.replace("\n", " ")), f)

    def page(self, name):
        with open(os.path.join(DOCS, name)) as f:
            text = f.read()
        self.files_of(text)
        return text

    def test_estimate(self):
        self.check(self.page("memtrace-estimate.1"), 3)

    def test_plan(self):
        self.check(self.page("memtrace-plan.1"), 3)

    def test_config(self):
        self.check(self.page("memtrace-config.5"), 3)
