"""memtrace plan: the numbers of every layout equal those of estimate, the order is right, and each discarded layout has a reason."""
import json
import os
import re

from harness import Case, MEMTRACE, ROOT, GiB
from test_estimate import LLAMA_8B
from test_estimate_facts import options

JOB = dict(LLAMA_8B, global_batch_size=1024)
KEYS = ("tensor_model_parallel_size", "pipeline_model_parallel_size", "context_parallel_size", "data_parallel_size", "micro_batch_size",
        "num_microbatches")
RANK = {"green": 0, "yellow": 1}


class Plan(Case):
    def plan(self, *more, config=JOB, gpus=64, gpu="A100-40GB", system="llama-4d", status=0):
        out = self.run_([MEMTRACE, "plan", "--json", "--gpus", str(gpus), "--gpu", gpu, "--system", system, *more, *options(config)], status=status).stdout
        return json.loads(out)

    def test_layouts(self):
        plan = self.plan("--order", "document")
        seen = set()
        for l in plan["layouts"]:
            t, p, c, d, b, m = sizes = [l[k] for k in KEYS]
            self.assertEqual((t * p * c * d, d * b * m), (64, 1024))
            self.assertTrue(t <= 8 and 32 % p == 0 and 8192 % c == 0)
            self.assertAlmostEqual(l["bubble"], (p - 1) / m, 5)  # document 003, section 4.2.1
            self.assertEqual(len(l["per_stage"]), p)
            self.assertEqual(l["total_bytes"], max(s["total_bytes"] for s in l["per_stage"]))
            self.assertEqual(l["color"], "green" if l["total_bytes"] * 10 <= 40 * GiB * 8 else "yellow")
            self.assertLessEqual(l["total_bytes"], 40 * GiB)
            self.assertIn(l["zero_stage"], (0, 1))
            self.assertEqual((l["virtual_pipeline_model_parallel_size"], l["expert_model_parallel_size"], l["recompute_granularity"]), (1, 1, "none"))
            self.assertEqual(l["sequence_parallel"], t > 1)
            seen.add(tuple(sizes) + (l["zero_stage"],))
        self.assertEqual(len(seen), len(plan["layouts"]))
        order = [(RANK[l["color"]], l[KEYS[0]] * l[KEYS[1]] * l[KEYS[2]], -l["micro_batch_size"], l["bubble"]) for l in plan["layouts"]]
        self.assertEqual(order, sorted(order))
        # The fastest of the green cells of document 003's Table 3 on 64 GPUs (190.9 TFLOP/s).
        self.assertEqual([plan["layouts"][0][k] for k in KEYS], [4, 1, 1, 16, 1, 64])
        for l in plan["layouts"][::17]:
            config = dict(JOB, sequence_parallel=True, zero_stage=l["zero_stage"], **{k: l[k] for k in KEYS})
            answer = json.loads(self.run_([MEMTRACE, "estimate", "--json", "--system", "llama-4d", *options(config)]).stdout)["estimates"][0]
            self.assertEqual(answer["max_stage_bytes"], l["total_bytes"])
        # No layout is missing: every power of two is planned or discarded.
        keys = {tuple(d["layout"].get(k, 0) for k in KEYS[:5]) for d in plan["discarded"]} | {s[:5] for s in seen}
        for t in (1, 2, 4, 8):
            for p in (1, 2, 4, 8):
                for c in (1, 2):
                    if t * p * c <= 64:
                        d = 64 // (t * p * c)
                        for b in (1, 2, 4, 8, 16):
                            self.assertIn((t, p, c, d, b), keys)
        for d in plan["discarded"]:
            self.assertRegex(d["reason"], "needs .* GiB|does not divide|is more than|there are|llama-4d has no formula for")
            self.assertGreaterEqual(d["count"], 1)

    def test_every_recomputation_has_its_micro_batches(self):
        plan = self.plan("--all", "--fix", "mbs=1", "--fix", "cp=1", "--fix", "tp=4", "--fix", "pp=2", gpus=16, gpu="A100-80GB", system="memtrace",
                         config=dict(JOB, global_batch_size=64))
        self.assertEqual({l["recompute_granularity"] for l in plan["layouts"]}, {"none", "selective", "full"})
        for l in plan["layouts"]:
            t, p, c, d, b, m = (l[k] for k in KEYS)
            self.assertEqual((t * p * c * d, d * b * m), (16, 64))
            self.assertAlmostEqual(l["bubble"], (p - 1) / (l["virtual_pipeline_model_parallel_size"] * m), 5)

    def test_constraints(self):
        for fix, key in (("tp=2", KEYS[0]), ("pp=4", KEYS[1]), ("cp=2", KEYS[2]), ("dp=8", KEYS[3]), ("micro_batch_size=2", KEYS[4])):
            layouts = self.plan("--fix", fix)["layouts"]
            self.assertTrue(layouts)
            self.assertEqual({l[key] for l in layouts}, {int(fix.split("=")[1])})
        self.assertLessEqual(max(l[KEYS[0]] for l in self.plan("--max-tp", "4")["layouts"]), 4)
        for l in self.plan("--memory-margin", "50")["layouts"]:
            self.assertEqual(l["color"] == "green", l["total_bytes"] <= 20 * GiB)
        reasons = " ".join(d["reason"] for d in self.plan(gpus=96, status=1)["discarded"])
        for reason in ("tensor size 3 does not divide num_attention_heads 32", "pipeline size 3 does not divide num_layers 32",
                       "data-parallel size 96 does not divide global_batch_size 1024", "tensor size 16 is more than 8 (see --max-tp)"):
            self.assertIn(reason, reasons)
        self.assertIn("tensor size 3 (--fix) divides nothing that it could",
                      [d["reason"] for d in self.plan("--fix", "tp=3", status=1)["discarded"]])
        padded = self.plan(config=dict(JOB, padded_vocab_size=128258))
        self.assertIn("tensor size 4 does not divide padded_vocab_size 128258", [d["reason"] for d in padded["discarded"]])
        for option, most, key in (("--max-pp", 2, KEYS[1]), ("--max-cp", 1, KEYS[2]), ("--max-dp", 4, KEYS[3]), ("--max-mbs", 2, KEYS[4])):
            self.assertEqual(max(l[key] for l in self.plan(option, str(most))["layouts"]), most)
        self.assertEqual({l["zero_stage"] for l in self.plan("--fix", "zero=0")["layouts"]}, {0})
        self.assertEqual(max(l[KEYS[0]] for l in self.plan("--set", "num_gpus_per_node=4")["layouts"]), 4)

    def test_systems(self):
        """Each system plans the layouts for which it has formulas; the others are discarded with their reason and number."""
        listed = re.findall(r"^  (\S+) +\S.*?( \(the default\))?$", self.run_([MEMTRACE, "plan", "--help"]).stdout.split("Systems:")[1], re.M)
        names = [name for name, _ in listed]
        self.assertEqual([name for name, default in listed if default], ["llama-4d"])
        blog = self.plan(system="training-memory-blog")
        self.assertEqual({l["zero_stage"] for l in blog["layouts"]} - {0, 1, 2}, set())
        for l in blog["layouts"][::29]:
            config = dict(JOB, **{k: l[k] for k in KEYS}, zero_stage=l["zero_stage"], sequence_parallel=l["sequence_parallel"])
            answer = json.loads(self.run_([MEMTRACE, "estimate", "--json", "--system", "training-memory-blog", *options(config)]).stdout)["estimates"][0]
            self.assertEqual(answer["total_bytes"], l["total_bytes"])
            self.assertNotEqual(answer["strategy"], "every-size")
        self.assertIn("the document prints no formula for these sizes together", {d["reason"] for d in blog["discarded"]})
        # Without a pipeline the blog's total does not depend on the micro-batch: one layout represents all.
        flat = [tuple(l[k] for k in (*KEYS[:4], "zero_stage")) for l in blog["layouts"] if l[KEYS[1]] == 1]
        self.assertEqual(len(flat), len(set(flat)))
        zero = self.plan(system="deepspeed-zero", config={k: v for k, v in JOB.items() if k != "global_batch_size"})
        self.assertEqual([(l[KEYS[3]], l["zero_stage"]) for l in zero["layouts"]], [(64, 2), (64, 3)])
        self.assertTrue(all("micro_batch_size" not in l for l in zero["layouts"]))
        params = 8030261248  # transformers' count for Llama 3.1 8B, as in test_estimate
        self.assertEqual([l["total_bytes"] for l in zero["layouts"]], [4 * params + 16 * params // 64, 4 * 128256 * 4096 + 18 * params // 64])
        self.assertIn("deepspeed-zero has no formula for tensor parallelism", {d["reason"] for d in zero["discarded"]})
        for wrong in ("llama", "all"):
            self.assertIn("--system", self.run_([MEMTRACE, "plan", "--gpus", "8", "--gpu", "H100", "--system", wrong, *options(JOB)], status=2).stderr)

    def test_inexpressible_layouts_are_counted(self):
        """8 GPUs, TP 1, 4 micro-batches of a data-parallel rank, by hand."""
        only = ("--fix", "tp=1", "--fix", "cp=1", "--fix", "pp=2", "--fix", "mbs=1")
        plan = self.plan(*only, gpus=8, gpu="H200", config=dict(JOB, global_batch_size=16))
        counts = {(tuple(d["layout"].items())[0], d["reason"]): d["count"] for d in plan["discarded"] if "no formula" in d["reason"]}
        # 32 layers on 2 stages are 16 each: 2, 4, 8, 16 chunks, each with 3 kinds of recomputation and 4 ZeRO stages; 4 % 2 micro-batches fit.
        self.assertEqual(counts, {
            **{(("virtual_pipeline_model_parallel_size", v), "llama-4d has no formula for interleaved stages"): 12 for v in (2, 4, 8, 16)},
            (("recompute_granularity", "selective"), "llama-4d has no formula for selective recomputation"): 4,
            (("recompute_granularity", "full"), "llama-4d has no formula for full recomputation"): 4,
            (("zero_stage", 2), "llama-4d has no formula for ZeRO-2"): 1, (("zero_stage", 3), "llama-4d has no formula for ZeRO-3"): 1})
        odd = self.plan(*only[:6], "--fix", "mbs=4", gpus=8, gpu="H200", status=None, config=dict(JOB, global_batch_size=16))
        self.assertEqual({d["layout"].get("virtual_pipeline_model_parallel_size", 1) for d in odd["discarded"]}, {1})

    def test_flags(self):
        expected = {"megatron": "--tensor-model-parallel-size 4 --pipeline-model-parallel-size 1", "deepspeed": "none: ",
                    "torchtitan": "--parallelism.tensor_parallel_degree=4", "accelerate": "--megatron_lm_tp_degree 4"}
        for launcher, start in expected.items():
            self.assertIn(start, self.plan("--flags", launcher)["layouts"][0]["flags"])
            self.assertIn(start, self.run_([MEMTRACE, "plan", "--system", "llama-4d", "--gpus", "64", "--gpu", "A100-40GB", "--flags", launcher, *options(JOB)]).stdout)
        one = self.plan("--flags", "deepspeed", "--fix", "tp=1", "--fix", "pp=1", "--fix", "cp=1", gpu="H200")["layouts"][0]
        self.assertEqual(json.loads(one["flags"])["train_micro_batch_size_per_gpu"], one["micro_batch_size"])

    def test_no_answer(self):
        self.assertEqual(self.plan(gpus=1, status=1)["layouts"], [])
        for key in ("num_layers", "global_batch_size", "ffn_hidden_size", "vocab_size"):
            done = self.run_([MEMTRACE, "plan", "--system", "llama-4d", "--gpus", "8", "--gpu", "H100", *options({k: v for k, v in JOB.items() if k != key})], status=2)
            self.assertIn(key + " is missing", done.stderr)
        for wrong in (["--gpus", "0"], ["--fix", "tp"], ["--fix", "xp=1"], ["--fix", "tp=0"], ["--gpu", "H1000"]):
            self.run_([MEMTRACE, "plan", "--gpus", "8", "--gpu", "H100", *options(JOB), *wrong], status=2)
        self.assertIn("--gpu", self.run_([MEMTRACE, "plan", "--gpus", "8", *options(JOB)], status=2).stderr)

    def test_values_that_a_model_file_does_not_have(self):
        """As `estimate` assumes them, and told; what is declared is not assumed, and --set of sizes alone assumes nothing."""
        path = os.path.join(ROOT, "tests", "config", "llama-3.1-8b", "config.json")
        words = [MEMTRACE, "plan", "--gpus", "16", "--gpu", "H100-80GB", "--config", path]
        said = json.loads(self.run_([*words, "--json"]).stdout)
        declared = json.loads(self.run_([*words, "--json", "--set", "seq_length=4096", "--set", "global_batch_size=16"]).stdout)
        self.assertEqual(said.pop("assumed"), "seq_length 4096 (of the model's 131072), global_batch_size 16 (a sequence for each GPU), precision bf16-mixed")
        self.assertEqual(said, declared)
        self.assertIn("global_batch_size 16 (a sequence for each GPU)", " ".join(self.run_(words).stdout.split()))
        self.assertNotIn("seq_length 4096", self.run_([*words, "--set", "seq_length=8192"]).stdout)

    def test_a_model_type_that_is_not_known(self):
        """Its sizes are planned as a decoder's, and the answer says so."""
        with open(os.path.join(ROOT, "tests", "config", "llama-3.1-8b", "config.json")) as f:
            model = dict(json.load(f), model_type="siglip_text_model")
        with open(os.path.join(self.dir, "config.json"), "w") as f:
            json.dump(model, f)
        words = [MEMTRACE, "plan", "--gpus", "16", "--gpu", "H100-80GB", "--config", "config.json", "--set", "seq_length=2048", "--set", "global_batch_size=16"]
        self.assertIn("model_type siglip_text_model is a decoder of these sizes", " ".join(self.run_(words).stdout.split()))

    def test_hybrid_models_have_no_times(self):
        words = [MEMTRACE, "plan", "--gpus", "8", "--gpu", "H100", *options(JOB), "--set", "hybrid_layer_pattern=M*-"]
        self.assertIn("hybrid_layer_pattern", self.run_(words, status=2).stderr)

    def test_whole_cluster(self):
        plan = self.plan(config=dict(JOB, global_batch_size=16384, seq_length=131072), gpus=16384, gpu="H100")
        self.assertGreater(len(plan["layouts"]), 500)
