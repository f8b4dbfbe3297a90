"""Chrome traces of PyTorch's profiler, read wherever a trace is. The truth is PyTorch's own counters and the trace of the same run."""
import itertools
import json
import os
import pickle
import unittest

import browser
from harness import GPT2, JOBS, MEMTRACE, Case, printed, python
from test_match import GPT

JOB = os.path.join(JOBS, "profiled.py")
GPT2_JOB = (os.path.join(JOBS, "profiled_script.py"), GPT2, "--layers", "2", "--batch", "2")
DECLARED = dict(GPT, num_layers=2, micro_batch_size=2)


class Profiles(Case):
    def profiled(self, version, name, *options):
        """PyTorch's counters, the report of the profile, and that of the trace."""
        said = printed(self.simulate([python(version), JOB, name, *options], MEMTRACE_STACK_MIN=0).stdout, "peak")[0]
        report = json.loads(self.run_([MEMTRACE, "report", "--json", name]).stdout)
        return said, report["ranks"][0], self.report()["ranks"][0]

    def check(self, said, read, recorded):
        peak = read["peak"]
        self.assertEqual((peak["allocated_bytes"], peak["reserved_bytes"]), (said["peak"], said["reserved"]))
        self.assertEqual(peak["phase"], recorded["peak"]["phase"])
        self.assertIsNone(peak["device_bytes"])
        self.assertEqual(sum(peak["by_category"].values()), said["peak"])
        for category in "gradients", "activations", "workspaces":
            self.assertEqual(peak["by_category"][category], recorded["peak"]["by_category"][category], category)
        self.assertEqual(read["oom"][0]["requested_bytes"], 1 << 44)  # floats
        # The job catches the failure and ends in order, which the profile does not tell.
        self.assertEqual((recorded["end"], recorded["oom"][0]["survived"]), ("exit", False))
        self.assertEqual((read["end"], read["oom"][0]["survived"]), ("unknown", None))
        self.assertEqual(read["device_memory_bytes"], recorded["device_memory_bytes"])
        self.assertEqual(len([w for w in read["warnings"] if "profiler's trace" in w]), 1)

    def test_with_stacks(self):
        said, read, recorded = self.profiled("2.15", "profile.json", "stacks")
        self.check(said, read, recorded)
        # What was there before the profile began has no owner; the states come after it.
        self.assertEqual(read["peak"]["by_category"]["parameters"], 0)
        self.assertGreaterEqual(read["peak"]["by_category"]["other"], said["parameters"])
        states = read["peak"]["by_category"]["optimizer_states"], recorded["peak"]["by_category"]["optimizer_states"]
        self.assertAlmostEqual(states[0], states[1], delta=4096)  # two counters of steps
        self.assertTrue(read["steps_marked"])
        self.assertEqual([(s["forwards"], s["backwards"]) for s in read["steps"]], [(1, 1)] * 3)
        self.assertTrue(any(s["stack"].startswith("<module> ./profiled.py:16;") for s in read["peak"]["stacks"]), read["peak"]["stacks"])

    def test_without_stacks_and_compressed(self):
        said, read, recorded = self.profiled("2.5", "profile.json.gz")
        self.check(said, read, recorded)
        self.assertTrue(any("aten::mm operator" in s["stack"] for s in read["peak"]["stacks"]))
        for limit, said_of_it, status in (said["peak"], "ok ", 2), (said["peak"] - 1, "OVER ", 1):
            done = self.run_([MEMTRACE, "check", "--max-peak", str(limit), "profile.json.gz"], status=status)
            self.assertRegex(done.stdout, "(?m)^%s +max-peak" % said_of_it)
            self.assertRegex(done.stdout, r"(?m)^\? +out-of-memory")  # the job went on, which the profile does not tell
        lines = self.run_([MEMTRACE, "export", "--format", "collapsed", "profile.json.gz"]).stdout.splitlines()
        self.assertEqual(sum(int(line.rsplit(" ", 1)[1]) for line in lines), said["peak"])
        items = json.loads(self.run_([MEMTRACE, "diff", "--json", self.traces, "profile.json.gz"]).stdout)["items"]
        peaks = {i["name"]: (i["a_bytes"], i["b_bytes"]) for i in items if i["kind"] == "peak"}
        self.assertEqual(peaks["allocated"], (said["peak"], said["peak"]))
        self.assertEqual((peaks["reserved"][1], peaks["device"][1]), (said["reserved"], None))
        self.run_([MEMTRACE, "html", "-o", "page.html", "profile.json.gz"])
        page = browser.Page(os.path.join(self.dir, "page.html"))
        self.addCleanup(page.close)
        facts = page.facts()
        self.assertEqual([facts["peak.%s_bytes" % key] for key in ("allocated", "reserved", "device")], [str(said["peak"]), str(said["reserved"]), "unknown"])

    def test_what_is_no_profile(self):
        for text, why in (('{"schemaVersion": 1}', "without traceEvents"), ('{"traceEvents": [{"cat": "kernel"}]}', "profile_memory=True"),
                          ('{"traceEvents": [', "the text ends at byte")):
            with open(os.path.join(self.dir, "x.json"), "w", encoding="utf-8") as f:
                f.write(text)
            self.assertRegex(self.run_([MEMTRACE, "report", "x.json"], status=2).stderr, "x.json: .*" + why)


class Matched(Case):
    """memtrace match on the profile, and on PyTorch's own snapshot, of a whole training, beside the trace of the same run."""

    def match(self, path, *options, status=0):
        found = json.loads(self.run_([MEMTRACE, "match", "--json", "--config", "declared.json", "--tolerance", "0.02", *options, path], status=status).stdout)
        rank, = found["ranks"]
        return found["verdict"], rank

    def profiled(self, name, how):
        with open(os.path.join(self.dir, "declared.json"), "w", encoding="utf-8") as f:
            json.dump(DECLARED, f)
        done = self.simulate([python(), GPT2_JOB[0], name, how, *GPT2_JOB[1:]], MEMTRACE_STACK_MIN=0)
        return printed(done.stdout, "peak")[0]["peak"]

    def check(self, how, name="profile.json.gz", rounding=0):
        """`rounding`: the share of a block that a request may be smaller."""
        peak = self.profiled(name, how)
        (verdict, read), (_, recorded) = self.match(name), self.match(self.traces)
        self.assertEqual((verdict, recorded["observed_bytes"]), ("match", peak))
        self.assertAlmostEqual(read["observed_bytes"], peak, delta=rounding * peak)
        self.assertEqual(read["estimated_bytes"], recorded["estimated_bytes"])
        wrong, rank = self.match(name, "--set", "micro_batch_size=1", status=1)
        self.assertEqual(wrong, "mismatch")
        self.assertLess(rank["error"], -0.25)
        return read, recorded

    @staticmethod
    def components(rank):
        return {c["component"]: c["observed_bytes"] for c in rank["components"]}

    def test_with_stacks(self):
        """Every component has the bytes that it has in the trace."""
        read, recorded = self.check("stacks")
        self.assertEqual(self.components(read), self.components(recorded))

    def test_pytorch_s_own_snapshot(self):
        """Sizes as requested; the sum of them is known to the byte."""
        read, recorded = self.check("snapshot", "own.pickle", 0.01)
        with open(os.path.join(self.dir, "own.pickle"), "rb") as f:
            events = pickle.load(f)["device_traces"][0]
        deltas = [{"alloc": e["size"], "free_completed": -e["size"]}.get(e["action"], 0) for e in events]
        self.assertEqual(read["observed_bytes"], max(itertools.accumulate(deltas)))
        told, known = self.components(read), self.components(recorded)
        for component in "parameters", "buffers", "optimizer_states", "inputs":
            self.assertAlmostEqual(told[component], known[component], delta=0.01 * known[component], msg=component)
        # A snapshot does not tell the thread of what has a Python stack: the rest is divided in another way.
        rest = [sum(of.get(c, 0) for c in ("activations", "temporaries", "gradients")) for of in (told, known)]
        self.assertAlmostEqual(*rest, delta=0.01 * rest[1])

    def test_without_stacks(self):
        """What tells parameters and inputs is missing, and said."""
        read, recorded = map(self.components, self.check("no"))
        self.assertAlmostEqual(read["optimizer_states"], recorded["optimizer_states"], delta=4096)
        known = ("activations", "parameters", "buffers", "inputs", "temporaries")
        self.assertEqual(sum(read.get(key, 0) for key in known), sum(recorded.get(key, 0) for key in known))
        self.assertGreaterEqual(read["activations"], recorded["activations"])
        self.assertEqual((read.get("inputs", 0), read.get("parameters", 0)), (0, 0))
        rank, = json.loads(self.run_([MEMTRACE, "report", "--json", "profile.json.gz"]).stdout)["ranks"]
        self.assertEqual(sum("with_stack=True" in w and "among the activations" in w for w in rank["warnings"]), 1)


if __name__ == "__main__":
    unittest.main()
