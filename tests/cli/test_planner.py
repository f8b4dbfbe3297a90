"""The planner's order and times against the throughput that document 003 measured, and what a plan costs."""
import contextlib
import json
import os
import pty
import re
import resource
import subprocess
import sys

from harness import Case, MEMTRACE, ROOT, alone, environment

sys.path.insert(0, os.path.join(ROOT, "tests", "accuracy"))
import planner  # noqa: E402

LLAMA_8B = {"num_layers": 32, "hidden_size": 4096, "ffn_hidden_size": 14336, "num_attention_heads": 32, "num_query_groups": 8, "vocab_size": 128256,
            "swiglu": True, "untie_embeddings_and_output_weights": True, "normalization": "RMSNorm", "position_embedding_type": "rope",
            "add_bias_linear": False, "precision": "bf16-mixed", "seq_length": 8192, "framework": "megatron-core", "global_batch_size": 1024}


def given(config):
    return [x for k, v in config.items() for x in ("--set", "%s=%s" % (k, json.dumps(v) if isinstance(v, bool) else v))]


class Document003(Case):
    @classmethod
    def setUpClass(cls):
        cls.rows = planner.columns(MEMTRACE)

    def test_goals(self):
        """The limits of the issue, for all columns and for those on which nothing was fitted."""
        self.assertEqual((len(self.rows), sum(r["cells"] for r in self.rows)), (22, 240))
        for rows in (self.rows, [r for r in self.rows if r["held_out"]]):
            s = planner.summary(rows)
            self.assertGreaterEqual(s["correlation"], 0.9)
            self.assertLessEqual(s["loss"], 0.01)
            self.assertLessEqual(s["worst_loss"], 0.05)
            self.assertLessEqual(s["error"], 0.15)

    def test_documents_own_order(self):
        """--order document is the order that the planner had: 0.77, 2 % and 23 %."""
        s = planner.summary(self.rows)
        self.assertAlmostEqual(s["document_correlation"], 0.77, 2)
        self.assertAlmostEqual(s["document_worst"], 0.233, 3)

    def test_page(self):
        self.assertEqual(planner.page_table(), planner.table(self.rows))


class Speed(Case):
    def plan(self, *more, config=LLAMA_8B, gpu="H100", status=0):
        return self.run_([MEMTRACE, "plan", "--system", "memtrace", "--gpu", gpu, *more, *given(config)], status=status).stdout

    @alone
    def test_the_whole_space_of_16384_gpus(self):
        """Processor time of one plan, tensor by tensor, over every layout of 16,384 GPUs; twice the goal, for slow machines."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        plan = json.loads(self.plan("--json", "--gpus", "16384", config=dict(LLAMA_8B, global_batch_size=4096)))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 4)
        self.assertGreaterEqual(len(plan["layouts"]), 10)
        self.assertGreater(plan["not_judged"] + sum(d["count"] for d in plan["discarded"]), 10000)

    def test_many_stages(self):
        """Layouts of 63 stages each: all of them have all their stages."""
        model = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "config", "llama-3.1-405b", "config.json")
        plan = json.loads(self.plan("--json", "--gpus", "16128", "--config", model, config={
            "framework": "megatron-core", "seq_length": 8192, "global_batch_size": 4096, "transformer_impl": "transformer_engine"}))
        self.assertGreaterEqual(len(plan["layouts"]), 10)
        for layout in plan["layouts"]:
            self.assertEqual(len(layout["per_stage"]), layout["pipeline_model_parallel_size"])

    def test_stages_are_those_of_an_estimate(self):
        """The stages between the ends are run after the search; each has the bytes that `estimate` has for it, in the order of the pipeline."""
        job = dict(LLAMA_8B, global_batch_size=8, transformer_impl="transformer_engine")
        fixed = [f for pair in ("tp=8", "pp=8", "vpp=1", "cp=1", "mbs=1", "zero=1", "recompute=none") for f in ("--fix", pair)]
        (layout,) = json.loads(self.plan("--json", "--gpus", "64", *fixed, config=job))["layouts"]
        out = self.run_([MEMTRACE, "estimate", "--json", "--system", "memtrace", "--gpu", "H100", *given(dict(
            job, tensor_model_parallel_size=8, pipeline_model_parallel_size=8, micro_batch_size=1, data_parallel_size=1, sequence_parallel=True,
            use_distributed_optimizer=True))]).stdout
        estimated = [s["total_bytes"] for s in json.loads(out)["estimates"][0]["per_stage"]]
        self.assertEqual(len(estimated), 8)
        self.assertEqual([s["total_bytes"] for s in layout["per_stage"]], estimated)

    @alone
    def test_states_that_fit_nowhere(self):
        """405 billion parameters as two stages at most: a bound shows for every layout that it does not fit. What the file switches off is no reason
        to estimate each."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.plan("--gpus", "16384", config=dict(LLAMA_8B, num_layers=126, hidden_size=16384, ffn_hidden_size=53248, num_attention_heads=128,
                                                 global_batch_size=4096, multi_latent_attention=False, transformer_impl="transformer_engine"), status=1)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.assertLess(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 4)

    def test_what_is_shown_is_what_the_whole_search_shows(self):
        """A search that stops early shows the same layouts, in the same order, as one that estimates everything."""
        only = ("--gpus", "8", "--fix", "zero=1", "--max-cp", "2", "--max-vpp", "2", "--max-mbs", "4", "--fix", "recompute=none")
        config = dict(LLAMA_8B, global_batch_size=32)
        short, whole = (json.loads(self.plan("--json", *only, *more, config=config)) for more in ((), ("--all",)))
        self.assertGreater(short["not_judged"], 0)
        self.assertEqual(whole["not_judged"], 0)
        self.assertEqual(short["layouts"][:10], whole["layouts"][:10])

    def test_progress_on_a_terminal(self):
        """Its line is gone when the answer comes, and it promised none faster than the answer: the fastest that fits leaves too little memory."""
        command = [MEMTRACE, "plan", "--system", "memtrace", "--gpu", "H100", "--gpus", "64", "--all", "--max-vpp", "2", "--max-cp", "2", "--max-mbs", "2",
                   "--fix", "zero=1", *given(LLAMA_8B)]
        pid, terminal = pty.fork()
        if not pid:
            os.execvpe(command[0], command, dict(environment(), COLUMNS="100"))
        shown = b""
        with contextlib.suppress(OSError):      # it has ended
            while data := os.read(terminal, 65536):
                shown += data
        os.close(terminal)
        self.assertEqual(os.waitpid(pid, 0)[1], 0)
        lines = shown.decode().replace("\r\n", "\n").split("\n")
        *progress, left = lines[0].split("\r\x1b[K")
        self.assertRegex(progress[1], r"^memtrace: \d+ of at most \d+ layouts, \d+ fit")
        self.assertRegex(left, "^best: TP ")
        answer = float(re.search(r"predicted ([\d.]+) s a step", left)[1])
        promised = [float(s) for s in re.findall(r"([\d.]+) s a step", "".join(progress))]
        self.assertGreaterEqual(min(promised, default=answer), answer)

    def test_the_answer_comes_first(self):
        out = self.plan("--gpus", "16", "--top", "3", "--max-pp", "2")
        self.assertRegex(out.splitlines()[0], r"^best: TP \d.*: \d+\.\d\d GiB of 80, predicted [\d.]+ s a step \(\d+ tokens/s a GPU, MFU [\d.]+ %\)$")

    def test_reasons(self):
        out = self.plan("--gpus", "8", "--set", "device_memory_bytes=1000000000", status=1)
        self.assertEqual(out.splitlines()[0], "no layout fits")
        self.assertRegex(out, r"most frequent reasons\n +\d+ such as: needs .* GiB")


class Frameworks(Case):
    def test_hugging_face(self):
        """A model of transformers is split by DDP and FSDP; tensor parallelism is refused with its reason."""
        config = {"num_layers": 16, "hidden_size": 2048, "ffn_hidden_size": 8192, "num_attention_heads": 32, "num_query_groups": 8,
                  "vocab_size": 128256, "swiglu": True, "normalization": "RMSNorm", "position_embedding_type": "rope", "add_bias_linear": False,
                  "untie_embeddings_and_output_weights": True, "precision": "bf16-mixed", "seq_length": 2048, "framework": "transformers",
                  "global_batch_size": 16, "attention": "sdpa"}
        out = subprocess.run([MEMTRACE, "plan", "--json", "--system", "memtrace", "--gpus", "8", "--gpu", "H100", "--all", *given(config)],
                             stdout=subprocess.PIPE, check=True).stdout
        plan = json.loads(out)
        self.assertEqual({l["zero_stage"] for l in plan["layouts"]}, {0, 3})
        self.assertEqual(len(plan["reasons"]), 3)
        self.assertTrue(any("transformers is not split" in r["example"] for r in plan["reasons"]))

    def test_names(self):
        """The names of --flags and those of the configuration are the same."""
        plan = [MEMTRACE, "plan", "--gpus", "8", "--gpu", "H100", "--top", "1", "--fix", "tp=2", "--flags"]
        flags = [self.run_([*plan, name, *given(dict(LLAMA_8B, framework=framework))]).stdout
                 for name, framework in (("megatron", "megatron"), ("megatron-core", "megatron-core"))]
        self.assertEqual(*flags)
        self.assertIn("--tensor-model-parallel-size 2", flags[0])
