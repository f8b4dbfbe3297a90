"""memtrace match as a command: usage, exit statuses by tolerance, --what-if, the JSON keys, every system, inference."""
import json
import os
import re
import shlex
import shutil
import tempfile

from harness import GPT2, MEMTRACE, Case, python
from match_runs import assigned

JOB = (GPT2, "--layers", 2, "--batch", 2, "--length", 256, "--width", 256, "--heads", 4, "--vocabulary", 8000)
DECLARED = dict(framework="nanogpt", arch="gpt", num_layers=2, hidden_size=256, num_attention_heads=4, ffn_hidden_size=1024, vocab_size=8000,
                seq_length=256, max_position_embeddings=256, micro_batch_size=2, position_embedding_type="learned_absolute", precision="fp16-autocast",
                normalization="LayerNorm", add_bias_linear=False, norm_bias=False, untie_embeddings_and_output_weights=False, swiglu=False,
                attention="eager", attention_mask_buffers=True, optimizer="adamw", optimizer_implementation="fused", clip_grad=0.0)
RANK_KEYS = {"rank", "device", "simulated", "stage", "system", "verdict", "estimated_bytes", "observed_bytes", "error", "components", "terms",
             "unexplained", "missing", "gap_bytes", "causes"}


class Match(Case):
    @classmethod
    def setUpClass(cls):
        cls.all = tempfile.mkdtemp(prefix="memtrace-test-")
        cls.addClassCleanup(shutil.rmtree, cls.all, True)
        case = Case("run_")
        case.dir, case.traces = cls.all, os.path.join(cls.all, "traces")
        case.simulate([python(), *map(str, JOB)])
        cls.peak = case.trace().peak()
        cls.config = os.path.join(cls.all, "job.json")
        with open(cls.config, "w") as f:
            json.dump(DECLARED, f)

    def setUp(self):
        super().setUp()
        self.traces = os.path.join(self.all, "traces")

    def match(self, *options, status=0, declared=True):
        config = ("--config", self.config) if declared else ()
        return self.run_([MEMTRACE, "match", *config, *options, self.traces], status=status)

    def json(self, *options, **keys):
        return json.loads(self.match("--json", *options, **keys).stdout)

    def estimate(self, *options):
        """The answer of our own system; the trace contains the GPU and PyTorch's version."""
        done = self.run_([MEMTRACE, "estimate", "--json", "--system", "memtrace", *options])
        return json.loads(done.stdout)["estimates"][0]

    def test_of_a_snapshot(self):
        """The trace as a memory snapshot of PyTorch is matched to the same figures. It does not tell the thread of what has a Python stack, so that
        some of autograd's temporaries may be activations."""
        snapshot = os.path.join(self.dir, "job.pickle")
        self.run_([MEMTRACE, "export", "--format", "pytorch", "-o", snapshot, self.traces])
        of_trace = self.json()["ranks"][0]
        self.traces = snapshot
        of_snapshot = self.json()["ranks"][0]
        self.assertEqual((of_trace["verdict"], of_trace["observed_bytes"]), ("match", self.peak))
        for key in "verdict", "estimated_bytes", "observed_bytes", "unexplained", "missing":
            self.assertEqual(of_snapshot[key], of_trace[key], key)
        told = [[c for c in of["components"] if c["component"] not in ("activations", "temporaries")] for of in (of_snapshot, of_trace)]
        self.assertEqual(*told)
        self.assertEqual(len(told[0]), 5)

    def test_usage(self):
        for options, words in ((("--tolerance", "many"), "--tolerance"), (("--tolerance", "-1"), "share"), (("--tolerance", "nan"), "share"),
                               (("--component-tolerance", "weights=1"), "weights"), (("--component-tolerance", "parameters="), "share"),
                               (("--system", "nobody"), "nobody"), (("--what-if", "num_layers"), "KEY=VALUE"),
                               (("--what-if", "colour=red"), "colour"), (("--what-if", "num_layers=0"), "num_layers"),
                               (("--set", "num_layers"), "KEY=VALUE"), (("--nonsense",), "nonsense"), (("--config", "/nonexistent"), "/nonexistent"),
                               (("--write-config", "/nonexistent/x"), "/nonexistent/x")):
            done = self.match(*options, status=2)
            self.assertIn(words, done.stderr)
            self.assertEqual(done.stdout, "")
        self.assertIn("needs a trace", self.run_([MEMTRACE, "match"], status=2).stderr)
        self.assertIn("/nonexistent", self.run_([MEMTRACE, "match", "/nonexistent"], status=2).stderr)
        for word in "--tolerance", "--infer", "--what-if", "--write-config":
            self.assertIn(word, self.run_([MEMTRACE, "match", "--help"]).stdout)

    def test_no_trace_in_it(self):
        broken = os.path.join(self.dir, "broken.mtr")
        with open(broken, "wb") as f:
            f.write(b"memtrace" + bytes(5000))
        self.assertIn("broken.mtr", self.run_([MEMTRACE, "match", broken], status=2).stderr)

    def test_tolerance(self):
        """The exit status follows from the error in the JSON."""
        rank, = self.json("--set", "num_layers=3", "--tolerance", "10")["ranks"]
        self.assertEqual(rank["observed_bytes"], self.peak)
        self.assertAlmostEqual(rank["error"], (rank["estimated_bytes"] - self.peak) / self.peak)
        error = abs(rank["error"])
        self.assertGreater(error, 0.05)
        for share, status in ((error * 1.01, 0), (error * 0.99, 1)):
            for text in "%.6f" % share, "%.4f%%" % (100 * share):
                self.match("--set", "num_layers=3", "--tolerance", text, status=status)
        found = self.json("--set", "num_layers=3", "--tolerance", "0.01", status=1)
        self.assertEqual((found["verdict"], found["tolerance"], found["ranks"][0]["verdict"]), ("mismatch", 0.01, "mismatch"))

    def test_component_tolerance(self):
        rank, = self.json("--set", "vocab_size=9000", "--tolerance", "10")["ranks"]
        row, = [c for c in rank["components"] if c["component"] == "parameters"]
        # 1000 rows of 256 in fp32
        self.assertAlmostEqual((row["estimated_bytes"] - row["observed_bytes"]) / 1e6, 1.024, delta=0.6)
        error = row["estimated_bytes"] / row["observed_bytes"] - 1
        for share, status in ((error + 0.001, 0), (error - 0.001, 1)):
            self.match("--set", "vocab_size=9000", "--tolerance", "10", "--component-tolerance", "parameters=%f" % share, status=status)
        text = self.match("--set", "vocab_size=9000", "--tolerance", "10", "--component-tolerance", "0", status=1).stdout
        self.assertRegex(text, r"parameters +\S+ \S+ +\S+ \S+ +beyond its tolerance")

    def test_page_has_the_same_estimate(self):
        """The page that is proposed has every option that the estimate depends on."""
        options = ["--set", "num_layers=3", "--env", "A=b c", "--gpu", "A100-40GB", "--how", "formula", "--python", "/usr/bin/python3"]
        line = self.match(*options, status=1).stdout.splitlines()[-1]
        self.assertEqual(shlex.split(line), ["next", "memtrace", "html", "--config", self.config, *options, self.traces])

    def test_what_if(self):
        own, = self.json("--what-if", "micro_batch_size=2")["ranks"]
        other, = self.json("--what-if", "micro_batch_size=8,seq_length=128")["ranks"]
        declared = {**DECLARED, "micro_batch_size": 8, "seq_length": 128}
        path = os.path.join(self.dir, "other.json")
        with open(path, "w") as f:
            json.dump(declared, f)
        estimate = self.estimate("--config", self.traces, "--config", path)["total_bytes"]
        self.assertEqual(other["what_if"]["estimated_bytes"], estimate)
        for rank in own, other:
            found = rank["what_if"]
            missed = rank["observed_bytes"] - rank["estimated_bytes"]
            ends = sorted((found["estimated_bytes"] + missed, int(found["estimated_bytes"] * rank["observed_bytes"] / rank["estimated_bytes"])))
            self.assertAlmostEqual(found["low_bytes"], ends[0], delta=1)
            self.assertAlmostEqual(found["high_bytes"], ends[1], delta=1)
        self.assertEqual(own["what_if"]["low_bytes"], self.peak)
        self.assertRegex(self.match("--what-if", "micro_batch_size=8").stdout, r"\nwhat if  \S+ \S+ to \S+ \S+\n")

    def test_keys(self):
        found = self.json()
        self.assertLessEqual({"verdict", "tolerance", "ranks"}, set(found))
        self.assertNotIn("inferred", found)
        rank, = found["ranks"]
        self.assertEqual(set(rank), RANK_KEYS)
        for row in rank["components"]:
            self.assertEqual(set(row), {"component", "estimated_bytes", "observed_bytes"})
        for row in rank["terms"]:
            self.assertLessEqual({"id", "estimated_bytes", "observed_bytes", "blocks"}, set(row))
        for row in self.json("--set", "micro_batch_size=1", status=1)["ranks"][0]["unexplained"]:
            self.assertLessEqual({"stack", "bytes", "blocks"}, set(row))
        self.assertEqual(sum(t["observed_bytes"] for t in rank["terms"]) + sum(u["bytes"] for u in rank["unexplained"]), self.peak)

    def test_causes(self):
        """A wrong value is named, with the gap and the peak's error that the right value leaves: here none."""
        cause = self.json("--set", "micro_batch_size=4", "--tolerance", "10")["ranks"][0]["causes"][0]
        right, = self.json()["ranks"]
        self.assertEqual(cause, {"key": "micro_batch_size", "declared": "4", "value": "2", "meaning": cause["meaning"], "gap_bytes": right["gap_bytes"],
                                 "off_bytes": abs(right["estimated_bytes"] - self.peak)})
        self.assertIn("why  micro_batch_size, declared 4, would be 2: ", self.match("--set", "micro_batch_size=4", "--tolerance", "10").stdout)

    def test_every_system(self):
        """A document does not explain every byte, but assigned and remaining bytes add up; a document that lacks a key names it."""
        extra = {"deepspeed-zero": ("zero_stage=2", "precision=bf16-mixed", "total_params=4000000", "num_gpus_per_node=1"), "llama-4d": ("precision=bf16-mixed",), "nanogpt": (),
                 "training-memory-blog": (), "memtrace": ()}
        for system, values in extra.items():
            options = [x for v in values for x in ("--set", v)]
            rank, = self.json("--system", system, "--tolerance", "1000", *options)["ranks"]
            self.assertEqual(rank["system"], system)
            self.assertEqual(rank["observed_bytes"], self.peak)
            assigned(rank)
        for system in "nanogpt", "training-memory-blog", "memtrace":
            done = self.run_([MEMTRACE, "match", "--system", system, "--set", "num_layers=2", self.traces], status=2)
            self.assertRegex(done.stderr, r"[a-z_]+ is (missing|needed|not given)|needs? [a-z_]+|is not given")

    def test_inferred(self):
        """Nothing is declared: the sizes give the values of the job's command line."""
        path = os.path.join(self.dir, "inferred.json")
        found = self.json("--write-config", path, declared=False)
        values = {row["key"]: row["value"] for row in found["inferred"]}
        for key in ("num_layers", "hidden_size", "num_attention_heads", "ffn_hidden_size", "seq_length", "micro_batch_size", "max_position_embeddings",
                    "attention", "swiglu", "framework"):
            self.assertEqual(values[key], str(DECLARED[key]).lower(), key)
        self.assertTrue(values["precision"].endswith("-autocast"))
        for row in found["inferred"]:
            self.assertIn(row["confidence"], ("exact", "likely", "guess"))
            self.assertTrue(row["evidence"])
        self.assertEqual({row["key"] for row in found["not_told"]} & set(values), set())
        rank, = found["ranks"]
        self.assertLess(abs(rank["error"]), 0.005)
        # estimate accepts the written file and gives the same result
        estimate = self.estimate("--config", path)
        self.assertEqual(estimate["total_bytes"], rank["estimated_bytes"])
        text = self.match(declared=False).stdout
        self.assertRegex(text, r"\nhidden_size +256 +exact +\S")
        self.assertTrue(re.search(r"undetermined", text), text)

    def test_inferred_beside_declared(self):
        """--infer adds values that are not declared, and does not change the others."""
        found = self.json("--infer", "--set", "optimizer_implementation=loop", "--set", "vocab_size=8000", declared=False)
        keys = {row["key"] for row in found["inferred"]}
        self.assertIn("hidden_size", keys)
        self.assertNotIn("vocab_size", keys)
        self.assertNotIn("optimizer_implementation", keys)
