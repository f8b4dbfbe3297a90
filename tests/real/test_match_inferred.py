"""memtrace match with nothing declared: the inferred configuration is the job's own."""
from accuracy_runs import FULL
from match_jobs import gpt2, llama, megatron
from match_runs import compare, match, record
from harness import Case, add_tests

SMALL = {"num_layers": 3, "vocab_size": 16000, "micro_batch_size": 3}
EAGER = {"attention": "eager", "attention_mask_buffers": True}
FIRST = {
    "gpt2_eager_fp16": gpt2(512, 8, 512, precision="fp16-autocast", grad_scaler=True, **EAGER, **SMALL),
    "llama_groups": llama(512, 8, 2, 1408, seq_length=512, **SMALL),
}
MORE = {
    "gpt2_sdpa": gpt2(768, 12, 256, **SMALL),
    "gpt2_sdpa_fp32": gpt2(640, 10, 512, precision="fp32", **SMALL),
    "gpt2_recomputed": gpt2(512, 8, 512, **EAGER, **FULL, **SMALL),
    "gpt2_dropout": gpt2(512, 8, 512, attention_dropout=0.1, hidden_dropout=0.1, **EAGER, **SMALL),
    "llama_eager": llama(512, 8, 8, 1408, seq_length=512, attention="eager", **SMALL),
    "llama_recomputed": llama(768, 12, 4, 2048, seq_length=512, **FULL, **SMALL),
    "qwen2": llama(896, 14, 2, 2432, model_type="qwen2", add_qkv_bias=True, seq_length=512, **SMALL),
    "megatron": megatron(512, 8, 512, **{**SMALL, "world_size": 1}),
}


class Inferred(Case):
    def check(self, name, job):
        found = match(record(self.dir, name, job))
        rows = list(compare(found, job))
        self.assertEqual([(key, row and row["value"], value) for key, right, value, row in rows if right is False], [])
        self.assertEqual({key for key, right, _, _ in rows if right is None} -
                         {"optimizer_implementation", "clip_grad", "attention_dropout", "hidden_dropout", "max_position_embeddings",
                          "untie_embeddings_and_output_weights", "grad_scaler"}, set())
        rank, = found["ranks"]
        self.assertLess(abs(rank["error"]), 0.005)
        self.assertEqual([row for row in found["inferred"] if " be -" in row["evidence"]], [])  # what is chosen leaves less than what is not

    def test_an_evidence_names_a_value(self):
        """No dropout of Llama's layers is estimated, so that there is no gap to compare with."""
        found = match(record(self.dir, "llama", FIRST["llama_groups"]))
        evidence = {row["key"]: row["evidence"] for row in found["inferred"]}
        self.assertEqual(evidence["hidden_dropout"], "the job cannot be estimated with 0.1")
        self.assertRegex(evidence["zero_grad_set_to_none"], r"^false would be \d+\.\d [KMG]iB further off$")


add_tests(Inferred, FIRST, MORE)
