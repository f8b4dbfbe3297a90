"""memtrace diff on real jobs: each number equals that of the two reports, and those equal PyTorch's own."""
import json
import os
import re
import shlex
import shutil
import tempfile
import unittest

from harness import Case, JOBS, MEMTRACE, MiB, ROOT, python, torchrun

SMALL = ["--layers", "2", "--hidden", "128", "--heads", "4", "--vocab", "1000", "--seq", "256"]
JOBS_OF = {
    "base": ["--micro-batch", "4", "--attention", "eager", "--optimizer", "adamw_fused"],
    "again": ["--micro-batch", "4", "--attention", "eager", "--optimizer", "adamw_fused"],
    "large": ["--micro-batch", "8", "--attention", "eager", "--optimizer", "adamw_fused"],
    "sdpa": ["--micro-batch", "4", "--attention", "sdpa", "--optimizer", "adamw_fused"],
    "foreach": ["--micro-batch", "4", "--attention", "eager", "--optimizer", "adamw_foreach"],
}


def by(items, key, kind):
    """The bytes by name; stacks without frames have one name."""
    sums = {}
    for i in (i for i in items if i["kind"] == kind):
        sums[i["name"]] = None if i[key + "_bytes"] is None else sums.get(i["name"], 0) + i[key + "_bytes"]
    return sums


class Recorded(Case):
    """Five runs of a small GPT-2."""

    @classmethod
    def setUpClass(cls):
        cls.all = tempfile.mkdtemp(prefix="memtrace-test-")
        cls.addClassCleanup(shutil.rmtree, cls.all, True)
        cls.truth, cls.reports = {}, {}
        for name, options in JOBS_OF.items():
            case = Case("run_")
            case.dir, case.traces = cls.all, os.path.join(cls.all, name)
            done = case.simulate([python(), JOBS + "/gpt.py", *SMALL, *options])
            cls.truth[name] = json.loads([line for line in done.stdout.splitlines() if line.startswith('{"rank"')][-1])
            cls.reports[name] = case.report()["ranks"][0]


class Diff(Recorded):
    def diff(self, *arguments, status=0, **settings):
        return self.run_([MEMTRACE, "diff", *arguments], status=status, **settings)

    def items(self, a, b):
        return json.loads(self.diff("--json", os.path.join(self.all, a), os.path.join(self.all, b)).stdout)["items"]

    def configs(self, a, b):
        return {i["name"]: (i["a_value"], i["b_value"]) for i in self.items(a, b) if i["kind"] == "config"}

    def assert_of_the_reports(self, a, b):
        items = self.items(a, b)
        for key, name in (("a", a), ("b", b)):
            peak = self.reports[name]["peak"]
            self.assertEqual(by(items, key, "peak"), {m: peak[m + "_bytes"] for m in ("allocated", "reserved", "device")})
            self.assertEqual(by(items, key, "peak")["allocated"], self.truth[name]["max_memory_allocated"])
            self.assertEqual(by(items, key, "category"), peak["by_category"])
            self.assertEqual(sum(by(items, key, "category").values()), self.truth[name]["max_memory_allocated"])
            self.assertEqual({k: v for k, v in by(items, key, "owner").items() if v}, {k: v for k, v in peak["by_owner"].items() if v})
            self.assertEqual({k: v for k, v in by(items, key, "phase").items() if v}, {p["phase"]: p["peak_bytes"] for p in self.reports[name]["phases"]})
            self.assertEqual(sum(by(items, key, "stack").values()), peak["allocated_bytes"])
        stacks, places = {}, {}
        for row in self.reports[b]["peak"]["stacks"]:
            place = row["stack"], row["frame"], row["backward_of"]
            stacks[row["stack"]] = stacks.get(row["stack"], 0) + row["bytes"]
            places[place] = places.get(place, 0) + row["bytes"]
        self.assertEqual({k: v for k, v in by(items, "b", "stack").items() if v}, stacks)
        self.assertEqual({(i["name"], i["frame"], i.get("backward_of")): i["b_bytes"] for i in items if i["kind"] == "stack" and i["b_bytes"]}, places)
        return items

    def test_micro_batch(self):
        items = self.assert_of_the_reports("base", "large")
        self.assertEqual(self.configs("base", "large"), {"--micro-batch": ("4", "8")})
        activations, = [i for i in items if i["name"] == "activations"]
        self.assertGreater(activations["b_bytes"], 1.8 * activations["a_bytes"])
        self.assertTrue(activations["changed"])

    def test_eager_attention_and_sdpa(self):
        self.assert_of_the_reports("base", "sdpa")
        self.assertEqual(self.configs("base", "sdpa"), {"--attention": ("eager", "sdpa")})

    def test_fused_and_foreach(self):
        self.assert_of_the_reports("base", "foreach")
        self.assertEqual(self.configs("base", "foreach"), {"--optimizer": ("adamw_fused", "adamw_foreach")})

    def test_the_same_job_again(self):
        items = self.assert_of_the_reports("base", "again")
        self.assertEqual([i["name"] for i in items if i["changed"]], [])
        self.assertIn("nothing changed", self.diff(os.path.join(self.all, "base"), os.path.join(self.all, "again")).stdout)

    def test_limits(self):
        base, large = (os.path.join(self.all, name) for name in ("base", "large"))
        a, b = (self.truth[name]["max_memory_allocated"] for name in ("base", "large"))
        percent = 100 * (b - a) / a
        self.diff("--fail-over", "0", base, os.path.join(self.all, "again"))
        over = self.diff("--fail-over", "%d%%" % (percent / 2), base, large, status=1).stdout
        self.assertIn("OVER        peak of tensors: +", over)
        self.diff("--fail-over", "1GiB", base, large)
        self.diff("--fail-over", str(b - a - 1), base, large, status=1)
        self.diff("--fail-over", "0", large, base)
        done = json.loads(self.diff("--json", "--fail-over", "0", base, large, status=1).stdout)
        self.assertTrue(done["over"])

    def test_several_runs_have_a_spread(self):
        """A has two runs, with micro-batches of 4 and 8. B lies between them, so there is no change."""
        paths = {name: os.path.join(self.all, name) for name in JOBS_OF}
        both = paths["base"] + "," + paths["large"]
        for b, changes in (("base", False), ("large", False)):
            done = json.loads(self.diff("--json", "--fail-over", "0", both, paths[b]).stdout)
            peak, = [i for i in done["items"] if i["kind"] == "peak" and i["name"] == "allocated"]
            self.assertEqual(peak["changed"], changes)
            self.assertEqual(peak["a_least_bytes"], self.truth["base"]["max_memory_allocated"])
            self.assertEqual(peak["a_most_bytes"], self.truth["large"]["max_memory_allocated"])
            self.assertEqual(len(done["a"]), 2)

    def test_runs_of_one_directory(self):
        """DIR@RUN and DIR@all."""
        os.mkdir(self.traces)
        for name in ("base", "again", "large"):
            for file in os.listdir(os.path.join(self.all, name)):
                shutil.copy(os.path.join(self.all, name, file), self.traces)
        runs = {name: "%s:%d" % (self.reports[name]["run_id"], self.reports[name]["restart_count"] or 0) for name in ("base", "large")}
        done = json.loads(self.diff("--json", self.traces + "@" + runs["base"], self.traces + "@" + runs["large"]).stdout)
        self.assertEqual(by(done["items"], "a", "peak")["allocated"], self.truth["base"]["max_memory_allocated"])
        self.assertEqual(by(done["items"], "b", "peak")["allocated"], self.truth["large"]["max_memory_allocated"])
        done = json.loads(self.diff("--json", self.traces + "@all", os.path.join(self.all, "sdpa")).stdout)
        self.assertEqual(len(done["a"]), 3)

    def test_colour_and_bytes(self):
        base, large = (os.path.join(self.all, name) for name in ("base", "large"))
        self.assertNotIn("\033", self.diff(base, large).stdout)
        self.assertIn("\033", self.diff("--color", "always", base, large).stdout)
        self.assertIn("%d bytes" % self.truth["large"]["max_memory_allocated"], self.diff("--bytes", base, large).stdout)
        for line in self.diff("--top", "1", base, large, COLUMNS=60).stdout.splitlines():
            if not line.startswith((" " * 12 + "/", "next ")):  # not a path, and not a command to be copied
                self.assertLessEqual(len(line), 60, line)
        self.assertIn("more stacks", self.diff("--top", "1", base, large).stdout)

    def test_errors(self):
        base = os.path.join(self.all, "base")
        for arguments in ([base], [base, base, base], [base, "/not/here"], ["--fail-over", "x%", base, base], ["--fail-over", "-1", base, base],
                          [base, base + "@nothere"], [base + ",,", base], ["--rank", "7", base, base]):
            done = self.diff(*arguments, status=2)
            self.assertRegex(done.stderr, "^memtrace: .+")
            self.assertEqual(done.stdout, "")

    def test_limits_of_a_job(self):
        base, large = (os.path.join(self.all, name) for name in ("base", "large"))
        peak = self.truth["base"]["max_memory_allocated"]
        device = self.reports["base"]["peak"]["device_bytes"]

        def check(*arguments, status=0):
            return self.run_([MEMTRACE, "check", *arguments], status=status).stdout

        self.assertRegex(check("--bytes", "--max-peak", str(peak), base), r"^ok    max-peak +%d bytes, at most %d bytes" % (peak, peak))
        self.assertRegex(check("--bytes", "--max-peak", str(peak - 1), base, status=1), r"^OVER  max-peak +%d bytes" % peak)
        check("--max-peak", "1GiB", "--max-device", str(device - 1), base, status=1)
        check("--max-reserved", "1GiB", base)
        check("--baseline", base, large, status=1)
        check("--baseline", large, base)
        check("--baseline", base, os.path.join(self.all, "again"))
        check("--baseline", base, "--tolerance", "1000%", large)
        check("--max-growth", "0", base, status=2)
        said = json.loads(check("--json", "--max-peak", str(peak - 1), "--max-device", "80GiB", base, status=1))
        self.assertEqual(said["verdict"], "over")
        self.assertEqual([(r["rule"], r["ok"]) for r in said["rules"]], [("max-peak", False), ("max-device", True)])
        for wrong in ([base], ["--max-peak", "x", base], ["--max-peak", "1GiB"], ["--tolerance", "5%", "--max-peak", "1GiB", base]):
            check(*wrong, status=2)


class Examples(Recorded):
    """The examples of the man pages, on real traces."""

    def lines(self, page):
        with open(os.path.join(ROOT, "docs", "man", page)) as f:
            for line in re.findall(r"^\.Dl memtrace ((?:diff|check|report) .*)$", f.read(), re.M):
                yield line.split(" | ")[0]

    def test_they_run(self):
        for name, like in (("old/1", "base"), ("old/2", "again"), ("old/3", "base"), ("new", "large"), ("traces", "base")):
            shutil.copytree(os.path.join(self.all, like), os.path.join(self.dir, name))
        shutil.copytree(os.path.join(self.all, "base"), os.path.join(self.dir, "memtrace"))
        shutil.copytree(os.path.join(self.all, "large"), os.path.join(self.dir, "memtrace"), dirs_exist_ok=True)
        for path in os.listdir(os.path.join(self.all, "base")):
            shutil.copy(os.path.join(self.all, "base", path), os.path.join(self.dir, "old"))
        expected = {"memtrace-diff.1": [0, 1, 0, 0], "memtrace-check.1": [2, 1], "memtrace-report.1": [0, 0]}
        for page, statuses in expected.items():
            lines = list(self.lines(page))
            self.assertEqual(len(lines), len(statuses), page)
            for line, status in zip(lines, statuses):
                for name, run in (("RUN1", "base"), ("RUN2", "large")):
                    line = line.replace(name, self.reports[run]["run_id"])
                with self.subTest(line):
                    self.run_([MEMTRACE, *shlex.split(line)], status=status)


class Growth(Case):
    def test_a_leak_is_a_growth(self):
        """tests/jobs/leak.py keeps 3 MiB in each step; without its leak nothing remains."""
        self.simulate([python(), JOBS + "/leak.py", "3", "8"])
        check = [MEMTRACE, "check", "--bytes", self.traces, "--max-growth"]
        self.assertRegex(self.run_(check + ["3MiB"]).stdout, r"^ok    max-growth +%d bytes a step" % (3 * MiB))
        self.run_(check + [str(3 * MiB - 1)], status=1)

    def test_none(self):
        self.simulate([python(), JOBS + "/leak.py", "0", "8"])
        self.run_([MEMTRACE, "check", "--max-growth", "0", self.traces])


class OutOfMemory(Case):
    def test_a_death_keeps_no_budget(self):
        self.simulate([python(), JOBS + "/leak.py", "512", "100"], "--memory", "4GiB", status=1)
        said = self.run_([MEMTRACE, "check", "--max-peak", "1TiB", self.traces], status=1).stdout
        self.assertRegex(said, r"^OVER  out-of-memory +asked for 512.0 MiB")

    def diff(self, a, b, status):
        """The lines without what names the traces, and the JSON."""
        command = [MEMTRACE, "diff", "--fail-over", "1TiB", a, b]
        said = self.run_(command, status=status, COLUMNS=200).stdout
        return re.sub("process [0-9]+", "process P", said).splitlines(), json.loads(self.run_([*command, "--json"], status=status).stdout)

    def test_a_death_is_told_and_exceeds_every_limit(self):
        """The job keeps 512 MiB a step: of PyTorch's own number of allocated GiB follow the steps that were over."""
        died, lived = os.path.join(self.dir, "died"), os.path.join(self.dir, "lived")
        self.traces = died
        message = self.simulate([python(), JOBS + "/leak.py", "512", "100"], "--memory", "4GiB", status=1).stderr
        step = int(2 * float(re.search(r"([0-9.]+) GiB is allocated by PyTorch", message).group(1))) + 1
        self.traces = lived
        self.simulate([python(), JOBS + "/leak.py", "512", "3"], "--memory", "4GiB")
        line = "            OUT OF MEMORY, process P, step %d, optimizer, simulated; asked 512.0 MiB; the figures of %s end there"
        text, done = self.diff(lived, died, 1)
        self.assertEqual([text.index(line % (step, "B")), text.count(line % (step, "A"))], [2, 0])
        self.assertIn("OVER        B ran out of memory, and A did not", text)
        failed = done["b"][0]["out_of_memory"]
        self.assertEqual([failed[key] for key in ("step", "phase", "requested_bytes", "survived")], [step, "optimizer", 512 * MiB, False])
        self.assertEqual((done["a"][0]["out_of_memory"], done["over"]), (None, True))
        text, done = self.diff(died, lived, 0)
        self.assertEqual((text.index(line % (step, "A")), done["over"]), (1, False))
        text, done = self.diff(died, died, 2)
        self.assertEqual([text.index(line % (step, side)) for side in "AB"], [1, 3])
        self.assertIn("both jobs ran out of memory", "\n".join(text))
        self.assertIsNone(done["over"])
        self.assertEqual(self.diff(lived + "," + died, died, 2)[0][1], "            1 of 2 runs: " + (line % (step, "A")).strip())
        said = self.run_([MEMTRACE, "diff", lived, died], COLUMNS=200).stdout    # without a limit there is a result
        self.assertNotIn("OVER", said)
        self.run_([MEMTRACE, "check", "--baseline", lived, lived])

    def test_a_death_is_a_baseline_for_less(self):
        """It needs more than its peak: nothing is known of a job that had more, and one that had less is below it."""
        died, less, more = (os.path.join(self.dir, name) for name in ("died", "less", "more"))
        for self.traces, steps, memory, status in (died, "100", "3GiB", 1), (less, "2", "8GiB", 0), (more, "8", "8GiB", 0):
            self.simulate([python(), JOBS + "/leak.py", "512", steps], "--memory", memory, status=status)
        self.run_([MEMTRACE, "check", "--baseline", died, less])
        said = self.run_([MEMTRACE, "check", "--baseline", died, more], status=2).stdout
        self.assertEqual(re.findall(r"^\?     baseline-(\w+) +the baseline ran out of memory, so that it needs more than its peak$", said, re.M), ["peak", "reserved", "device"])


class SeveralRanks(Case):
    def test_worst_with_worst_or_the_same(self):
        traces = [os.path.join(self.dir, name) for name in "ab"]
        for path, odd in zip(traces, "01"):
            self.traces = path
            self.simulate(torchrun(2, JOBS + "/odd.py", odd, "64", JOBS + "/gpt.py", *SMALL), "--gpus", "2")
        ranks = [json.loads(self.run_([MEMTRACE, "report", "--json", path]).stdout)["ranks"] for path in traces]

        def peaks(*options):
            done = json.loads(self.run_([MEMTRACE, "diff", "--json", *options, *traces]).stdout)
            return by(done["items"], "a", "peak")["allocated"], by(done["items"], "b", "peak")["allocated"], done["a"][0]["rank"], done["b"][0]["rank"]

        at = [[r["peak"]["allocated_bytes"] for r in side] for side in ranks]
        self.assertEqual(peaks(), (at[0][0], at[1][1], 0, 1))
        self.assertEqual(peaks("--rank", "1"), (at[0][1], at[1][1], 1, 1))
        self.assertEqual(at[1][1] - at[0][1], 64 * MiB)


if __name__ == "__main__":
    unittest.main()
