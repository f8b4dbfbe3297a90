"""The man pages agree with the commands: every command, every option, every setting."""
import os
import re
import subprocess
import unittest

from harness import MEMTRACE, ROOT


def output(*arguments):
    return subprocess.run([MEMTRACE, *arguments], check=True, stdout=subprocess.PIPE, text=True).stdout


def commands():
    """The names in `memtrace --help`: the lines that have a summary."""
    return re.findall(r"^  ([a-z][a-z-]*)  +\S", output("--help"), re.M)


def page(name):
    with open(os.path.join(ROOT, "docs", "man", name + ".1")) as f:
        return f.read()


def page_of(command):
    return page("memtrace-" + command)


def options_in_help(command):
    """{"--output": "DIR", "--json": ""}, from the help"""
    rows = re.findall(r"^  (?:-\w, |    )(--[a-z-]+)(?: (\S+))? ", output(command, "--help"), re.M)
    return dict(rows)


def options_in_page(text):
    """{"--output": "dir"}, from the items of the page's lists"""
    found = {}
    for line in re.findall(r"^\.It (Fl .*)", text, re.M):
        argument = re.search(r" (?:Ar|Cm) (\S+)", line)
        for name in re.findall(r"Fl -([a-z][a-z-]*)", line):
            found["--" + name] = argument.group(1) if argument else ""
    return found


def settings():
    """(name, default, help) of each row of settings.def"""
    with open(os.path.join(ROOT, "preload", "process", "settings.def")) as f:
        rows = re.findall(r'^SETTING\((\w+),\s*\w+,\s*"([^"]*)",\s*"((?:[^"\\]|\\.)*)"\)', f.read(), re.M)
    return rows


class Docs(unittest.TestCase):
    def test_the_commands_are_found(self):
        self.assertIn("report", commands())
        self.assertIn("--json", options_in_help("report"))
        self.assertIn("DIR", [name for name, _, _ in settings()])

    def test_every_command_has_a_page_and_every_page_a_command(self):
        pages = {f[len("memtrace-"):-len(".1")] for f in os.listdir(os.path.join(ROOT, "docs", "man")) if f.startswith("memtrace-") and f.endswith(".1")}
        self.assertEqual(pages, set(commands()))

    def test_the_main_page_names_every_command(self):
        for command in commands():
            with self.subTest(command):
                self.assertRegex(page("memtrace"), r"(?m)^\.It Cm %s$" % re.escape(command))
                self.assertIn(".Xr memtrace-%s 1" % command, page("memtrace"))

    def test_every_option_is_in_its_page_and_no_other(self):
        for command in commands():
            with self.subTest(command):
                helped, paged = options_in_help(command), options_in_page(page_of(command))
                paged.setdefault("--help", "")
                self.assertEqual(set(helped), set(paged))
                for name, argument in helped.items():
                    self.assertEqual(bool(argument), bool(paged[name]), name)

    def test_every_option_is_in_the_synopsis(self):
        for command in commands():
            synopsis = page_of(command).split(".Sh SYNOPSIS")[1].split(".Sh DESCRIPTION")[0]
            for name in set(options_in_help(command)) - {"--help"}:
                with self.subTest(command + " " + name):
                    short = {"--output": "Fl o"}.get(name, "Fl -" + name[2:])
                    self.assertIn(short, synopsis)

    def test_every_setting_is_in_the_page_of_run(self):
        text = page_of("run")
        listed = re.findall(r"^\.It Ev MEMTRACE_(\w+)\n(.*)$", text, re.M)
        self.assertEqual([name for name, _ in listed], [name for name, _, _ in settings()])
        for (name, said), (_, default, about) in zip(listed, settings()):
            with self.subTest(name):
                self.assertEqual(said, about + (" (%s)" % default if default else ""))

    def test_every_setting_is_in_the_help_of_run(self):
        text = output("run", "--help")
        for name, _, about in settings():
            with self.subTest(name):
                self.assertRegex(text, r"(?m)^  MEMTRACE_%s +%s" % (name, re.escape(about)))


# The tables of members of JSON objects: (file, {object: title of the part of the page that lists its keys}), by command.
MEMBERS = {
    "report": (
        ("report/members.def", {"RANK": "Rank", "PEAK": "Peak", "AT_PEAK": "Peak", "WHEN": "Moment", "OOM": "Failed request", "STACK": "Stack",
                                "STEP": "Step, phase, named phase and named moment", "PHASE": "Step, phase, named phase and named moment",
                                "NAMED": "Step, phase, named phase and named moment", "MOMENT": "Step, phase, named phase and named moment",
                                "OWNER_ROW": "Owner and communicator", "COMM": "Owner and communicator", "FINAL": "End of the trace",
                                "LOST": "End of the trace", "LIVE": "End of the trace", "SHARER": "End of the trace", "JOB": "Job", "GROUP": "Job",
                                "SPREAD": "Job", "OUTLIER": "Job", "UNREADABLE": "Job"}),
        ("diagnose/findings.def", {"FINDING": "Finding", "REMEDY": "Finding", "MEASURED": "Finding", "NEED": "Need and inference",
                                   "MEASURED_NEED": "Need and inference", "INFERENCE": "Need and inference"}),
        ("session/runs.def", {"RUN": "Run"})),
    "estimate": (
        ("estimate/members.def", {"ESTIMATE": "Estimate", "STAGE": "Stage", "PEAK": "Stage", "ONLY_STAGE": "Stage", "STAGE_TERM": "Stage",
                                  "OUTSIDE": "Term, constant and memory outside of the allocator",
                                  "TERM": "Term, constant and memory outside of the allocator",
                                  "CONSTANT": "Term, constant and memory outside of the allocator",
                                  "OPTION_ROW": "Row of the table of document 002"}),),
    "plan": (
        ("plan/members.def", {"PLAN_LAYOUT": "Layout", "PLAN_TIME": "Layout", "PLAN_STAGE": "Layout", "DISCARDED": "Discarded layouts",
                              "REASON": "Discarded layouts"}),),
    "match": (
        ("match/members.def", {"MATCH": "Rank", "COMPONENT": "Component and term", "TERM": "Component and term",
                                     "UNEXPLAINED": "Unexplained and missing blocks", "MISSING": "Unexplained and missing blocks", "CAUSE": "Cause",
                                     "WHAT_IF": "What if"}),),
    "diff": (
        ("diff/members.def", {"DIFF": "", "COMPARED": "Run", "FAILED": "Failed request", "ITEM": "Item", "CONFIG_ITEM": "Item"}),),
    "history": (
        ("history/members.def", {"RUN": "Run", "SHOWN": "Run", "COMPONENT": "Component", "TREND": "Trend",
                                 "SPREAD": "Spread, prediction and run that is out", "RATIO": "Spread, prediction and run that is out",
                                 "OUT": "Spread, prediction and run that is out"}),
        ("history/history.h", {"HISTORY_COLUMNS": "Run"})),
}


class Members(unittest.TestCase):
    """Every key of --json that is a row of a table is in the man page, in the list of its object."""

    def rows(self, table):
        """(object, key) of each row that --json writes: a record's keys are in the page of summarize."""
        with open(os.path.join(ROOT, "analyzer", table)) as f:
            text = f.read()
        if table.endswith(".h"):  # a list of columns, each of which is a member
            return [(name, key) for name, lines in re.findall(r"^#define (HISTORY_COLUMNS)\(X\)((?:.*\\\n)+.*)", text, re.M)
                    for key in re.findall(r"X\((\w+), ", lines)]
        rows = re.findall(r'^([A-Z_]+)\("(\w+)", (.*)\)$', text, re.M)
        return [(name, key) for name, key, rest in rows if not rest.endswith(", RECORD")]

    def keys(self, command, title):
        text = page_of(command).split(".Sh JSON\n")[1].split("\n.Sh ")[0]
        text = text if title else "\n.Ss \n" + text  # before the first title: the keys of the whole
        part = re.search(r"^\.Ss %s\n(.*?)(?=^\.Ss |\Z)" % re.escape(title), text, re.M | re.S)
        return {key for line in re.findall(r"^\.It (Cm .*)", part.group(1), re.M) for key in re.findall(r"Cm (\w+)", line)} if part else set()

    def test_every_member_is_in_the_page(self):
        for command, tables in MEMBERS.items():
            for table, titles in tables:
                rows = self.rows(table)
                self.assertTrue(rows, table)
                for name, key in rows:
                    if name == "POINT":  # of a record only
                        continue
                    with self.subTest("%s: %s of %s" % (command, key, name)):
                        self.assertIn(key, self.keys(command, titles[name]))

    def test_every_member_of_top_is_in_its_page(self):
        text = page_of("top").split(".Ss JSON\n")[1].split("\n.Sh ")[0]
        listed = set(re.findall(r"\w+", " ".join(re.findall(r"^\.Ic (.*)$", text, re.M))))
        rows = self.rows("live/members.def")
        self.assertTrue(rows)
        self.assertEqual({key for _, key in rows} - listed, set())

    def test_no_other_member_is_in_the_page(self):
        """A key that a page lists is one of the tables, or is named here with the code that sets it."""
        by_hand = {"report": set(), "estimate": {"constants", "leaves_out", "notes"}, "plan": {"per_stage", "flags"}, "match": set(), "diff": set(), "history": set()}
        for command, tables in MEMBERS.items():
            known = {key for table, _ in tables for _, key in self.rows(table)} | by_hand[command]
            for title in {title for _, titles in tables for title in titles.values()}:
                with self.subTest("%s: %s" % (command, title)):
                    self.assertEqual(self.keys(command, title) - known, set())


class Triton(unittest.TestCase):
    """Triton looks for libcuda.so.1 as a file."""

    def said(self, **env):
        env = {**{k: v for k, v in os.environ.items() if k != "TRITON_LIBCUDA_PATH"}, **env}
        return subprocess.run([MEMTRACE, "simulate", "--", "printenv", "TRITON_LIBCUDA_PATH"], env=env, check=True, stdout=subprocess.PIPE,
                              text=True).stdout.strip()

    def test_the_simulated_device_is_found(self):
        self.assertTrue(os.path.exists(os.path.join(self.said(), "libcuda.so.1")))

    def test_what_is_set_stays(self):
        self.assertEqual(self.said(TRITON_LIBCUDA_PATH="/elsewhere"), "/elsewhere")


if __name__ == "__main__":
    unittest.main()
