"""memtrace match on jobs of several ranks: each rank has its own estimate, and its bytes add up."""
import os

from accuracy_runs import FULL
from match_jobs import GATED, TWO, gpt2, llama, megatron
from match_runs import assigned, compare, match, record
from harness import MEMTRACE, Case, add_tests

FUSED = ("seq_length", "micro_batch_size", "num_attention_heads", "num_query_groups")
SMALL = {"num_layers": 4, "vocab_size": 16000, "micro_batch_size": 2}
FIRST = {
    "megatron_pp": megatron(512, 8, 512, pipeline_model_parallel_size=2, **SMALL),
    "llama_fsdp2": llama(512, 8, 2, 1408, seq_length=512, fsdp=True, precision="bf16-mixed", **TWO, **SMALL),
}
MORE = {
    "megatron_tp": megatron(512, 8, 512, tensor_model_parallel_size=2, sequence_parallel=True, **{**GATED, "num_query_groups": 2, **SMALL}),
    "megatron_pp_recomputed": megatron(512, 8, 512, pipeline_model_parallel_size=2, **FULL, **SMALL),
    "gpt2_ddp": gpt2(512, 8, 512, **TWO, **SMALL),
    "gpt2_zero2": gpt2(512, 8, 512, framework="deepspeed", precision="bf16-mixed", optimizer_implementation="foreach", zero_stage=2, overlap_comm=True,
                       reduce_bucket_size=5000000, norm_bias=False, add_bias_linear=False, swiglu=False, **TWO, **SMALL),
}


class Ranks(Case):
    def check(self, name, job):
        traces = record(self.dir, name, job)
        config = ("--config", os.path.join(self.dir, name, "job.json"))
        found = match(traces, *config)
        peaks = {}
        self.traces = traces
        for rank in self.report()["ranks"]:
            peaks[rank["rank"]] = rank["peak"]["allocated_bytes"]
        self.assertEqual(len(found["ranks"]), 2)
        for rank in found["ranks"]:
            self.assertEqual(rank["observed_bytes"], peaks[rank["rank"]])
            self.assertEqual(rank["stage"], rank["rank"] if "pipeline_model_parallel_size" in job else 0)
            self.assertGreaterEqual(assigned(rank) / rank["observed_bytes"], 0.99)
            self.assertLess(abs(rank["error"]), 0.01)
        gaps = [r["gap_bytes"] / r["observed_bytes"] for r in found["ranks"]]
        self.assertEqual(gaps, sorted(gaps, reverse=True))
        self.assertEqual(found["differing"], [])
        wrong = match(traces, *config, "--set", "vocab_size=24000")
        gaps = [r["gap_bytes"] / r["observed_bytes"] for r in wrong["ranks"]]
        self.assertEqual(gaps, sorted(gaps, reverse=True))
        self.assertEqual({tuple(row["ranks"]) for row in wrong["differing"] if row["component"] == "parameters"} - {(0, 1), (1, 0)}, set())
        text = self.run_([MEMTRACE, "match", *config, "--set", "vocab_size=24000", traces], status=None).stdout
        self.assertIn("parameters: the estimate is off by up to +", text)
        self.assertIn("on ranks 0, 1", text)
        self.assertIn("rank %d, the worst:" % wrong["ranks"][0]["rank"], text)
        self.infer(name, job, traces)

    def infer(self, name, job, traces):
        """Nothing is declared: both ranks together give the job's own configuration. Fused attention without masks keeps nothing of s^2, so the
        tokens of a row, and the heads, are guesses there."""
        found = match(traces)
        open_keys = FUSED if job["framework"] == "transformers" and job["attention"] == "sdpa" else ()
        self.assertEqual([(key, row and row["value"], value) for key, right, value, row in compare(found, job)
                          if right is False and not (key in open_keys and row["confidence"] == "guess")], [])
        for rank in found["ranks"]:
            self.assertLess(abs(rank["error"]), 0.01, name)


add_tests(Ranks, FIRST, MORE)
