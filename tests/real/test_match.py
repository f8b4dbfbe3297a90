"""memtrace match on real jobs: the bytes add up, nearly all have a term, and a wrong declaration does not match."""
import json
import os

from harness import GPT2, JOBS, MEMTRACE, Case, add_tests, python
from match_runs import assigned

GPT = dict(framework="nanogpt", arch="gpt", num_layers=4, hidden_size=768, num_attention_heads=12, ffn_hidden_size=3072, vocab_size=50304,
           seq_length=1024, max_position_embeddings=1024, micro_batch_size=4, position_embedding_type="learned_absolute",
           normalization="LayerNorm", add_bias_linear=False, norm_bias=False, untie_embeddings_and_output_weights=False, swiglu=False,
           attention="eager", attention_mask_buffers=True, attention_dropout=0.0, hidden_dropout=0.0, precision="fp16-autocast",
           optimizer="adamw", clip_grad=0.0, optimizer_implementation="fused")
LLAMA = dict(framework="transformers", arch="llama", num_layers=4, hidden_size=512, num_attention_heads=8, num_query_groups=2,
             ffn_hidden_size=1408, vocab_size=32000, seq_length=512, micro_batch_size=2, swiglu=True, normalization="RMSNorm",
             add_bias_linear=False, untie_embeddings_and_output_weights=True, attention="sdpa", attention_dropout=0.0, hidden_dropout=0.0,
             precision="bf16", optimizer="adamw", clip_grad=0.0, optimizer_implementation="fused")
HF = os.path.join(JOBS, "hf_outputs.py")
SMALL = (GPT2, "--layers", 4, "--batch", 4)
# job, its declared configuration: the first ones in every run, the others with ALL_JOBS
FIRST = {
    "gpt2_eager": (SMALL, GPT),
    "gpt2_sdpa": ((*SMALL, "--flash", "--dtype", "bfloat16"), dict(GPT, attention="sdpa", attention_mask_buffers=False, precision="bf16-autocast")),
    "llama": ((HF,), LLAMA),
}
MORE = {
    "gpt2_batch_2": ((GPT2, "--layers", 6, "--batch", 2), dict(GPT, num_layers=6, micro_batch_size=2)),
    "gpt2_short": ((*SMALL, "--length", 512), dict(GPT, seq_length=512, max_position_embeddings=512)),
    "gpt2_wide": ((GPT2, "--layers", 3, "--batch", 2, "--width", 1024, "--heads", 16, "--dtype", "bfloat16"),
                  dict(GPT, num_layers=3, micro_batch_size=2, hidden_size=1024, ffn_hidden_size=4096, num_attention_heads=16, precision="bf16-autocast")),
    "gpt2_words": ((*SMALL, "--vocabulary", 32000, "--flash"), dict(GPT, vocab_size=32000, attention="sdpa", attention_mask_buffers=False)),
    "llama_eager": ((HF, "--attention", "eager"), dict(LLAMA, attention="eager")),
    "llama_recomputed": ((HF, "--recompute", "full"), dict(LLAMA, recompute_granularity="full", recompute_method="uniform", recompute_num_layers=1)),
    "llama_foreach": ((HF, "--optimizer", "adamw_foreach"), dict(LLAMA, optimizer_implementation="foreach")),
    "llama_long": ((HF, "--seq", 2048, "--micro-batch", 1), dict(LLAMA, seq_length=2048, micro_batch_size=1)),
    "llama_fp32": ((HF, "--dtype", "fp32"), dict(LLAMA, precision="fp32")),
    "llama_autocast": ((HF, "--dtype", "bf16"), dict(LLAMA, precision="bf16-autocast")),
    "llama_deep": ((HF, "--layers", 12, "--kv-heads", 8), dict(LLAMA, num_layers=12, num_query_groups=8)),
    "megatron": ((os.path.join(JOBS, "megatron_gpt.py"), "--layers", 4, "--hidden", 512, "--heads", 8, "--seq", 512, "--micro-batch", 2,
                  "--accumulate", 1, "--attention", "eager", "--clip", 0),
                 dict(framework="megatron-core", transformer_impl="local", arch="gpt", num_layers=4, hidden_size=512, num_attention_heads=8,
                      vocab_size=32000, seq_length=512, max_position_embeddings=512, micro_batch_size=2, attention="eager",
                      position_embedding_type="learned_absolute", normalization="LayerNorm", precision="bf16-mixed", attention_dropout=0.0,
                      hidden_dropout=0.0, use_distributed_optimizer=True, untie_embeddings_and_output_weights=True)),
    "llama_clipped": ((HF, "--clip", 1.0), dict(LLAMA, clip_grad=1.0)),
}


class Matching(Case):
    def match(self, *options, status=0):
        return json.loads(self.run_([MEMTRACE, "match", "--json", *options, self.traces], status=status).stdout)

    def observe(self, job, declared):
        config = os.path.join(self.dir, "declared.json")
        with open(config, "w") as f:
            json.dump(declared, f)
        self.simulate([python(), *map(str, job)], MEMTRACE_CONFIG=config)


class Match(Matching):
    def check(self, name, row):
        self.observe(*row)
        found = self.match("--tolerance", "0.02")
        rank, = found["ranks"]
        self.assertEqual(found["verdict"], "match")
        self.assertEqual(rank["observed_bytes"], self.trace().peak())
        share = assigned(rank) / rank["observed_bytes"]
        if os.environ.get("SHOW_SHARES"):
            print("%s: %.3f %% of the bytes, %+.3f %%" % (self.id(), 100 * share, 100 * rank["error"]))
        self.assertGreaterEqual(share, 0.99, rank["unexplained"][:3])


add_tests(Match, FIRST, MORE)


class Refused(Matching):
    def test_wrong_batch_and_documents(self):
        self.observe(*FIRST["gpt2_sdpa"])
        wrong = self.match("--set", "micro_batch_size=2", status=1)
        self.assertEqual(wrong["verdict"], "mismatch")
        self.assertLess(wrong["ranks"][0]["error"], -0.3)
        assigned(wrong["ranks"][0])
        # the same peak with a document's system: bytes are assigned by component, and add up too
        document = self.match("--system", "nanogpt", "--tolerance", "100%")["ranks"][0]
        assigned(document)
        document_sum = sum(t["observed_bytes"] for t in document["terms"])
        self.assertEqual(document_sum + sum(u["bytes"] for u in document["unexplained"]), document["observed_bytes"])
        # one component may have a smaller tolerance, or a larger one
        self.match("--component-tolerance", "parameters=1%")
        self.match("--component-tolerance", "activations=0.0001", status=1)
        for bad in ("--tolerance", "x"), ("--component-tolerance", "weights=1"), ("--system", "nobody"), ("--set", "num_layers=many"):
            done = self.run_([MEMTRACE, "match", *bad, self.traces], status=2)
            self.assertIn(bad[1].split("=")[0], done.stderr)
        text = self.run_([MEMTRACE, "match", self.traces]).stdout
        self.assertTrue(text.startswith("match  "), text)
        self.assertNotIn("\033", text)

    def test_what_if(self):
        self.observe(*FIRST["gpt2_eager"])
        found = self.match("--what-if", "micro_batch_size=2,num_layers=6")["ranks"][0]["what_if"]
        self.traces += "-2"
        self.observe(*MORE["gpt2_batch_2"])
        real = self.trace().peak()
        self.assertLess(abs(found["low_bytes"] - real), 0.005 * real)
        self.assertLess(abs(found["high_bytes"] - real), 0.005 * real)
        for bad in "micro_batch_size", "micro_batch_size=none", "=2":
            self.run_([MEMTRACE, "match", "--what-if", bad, self.traces], status=2)

    def test_nothing_to_match(self):
        self.run_([MEMTRACE, "match"], status=2)
        self.run_([MEMTRACE, "match", "/nonexistent"], status=2)
