"""memtrace match with nothing declared: the inferred configuration is the job's own."""
import json
import os

from accuracy_runs import FULL
from match_jobs import gpt2, llama, megatron
from match_runs import compare, match, record
from harness import JOBS, MEMTRACE, Case, add_tests, python

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


# Models of transformers as people build them: GPT-2 has positions for 1024 tokens, whatever it is trained with.
SIZES = {"num_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "vocab_size": 32000, "seq_length": 384, "micro_batch_size": 3}
OF_GPT2 = {"model_type": "gpt2", "ffn_hidden_size": 2048, "max_position_embeddings": 1024, "hidden_dropout": 0.1, "embedding_dropout": 0.1, **SIZES}
OF_LLAMA = {"model_type": "llama", "ffn_hidden_size": 1408, "num_query_groups": 2, **SIZES}
PLAIN = {
    "gpt2_moved": (("gpt2", "--moved", "--use-cache", "--dtype", "fp32"), {**OF_GPT2, "precision": "fp32", "use_cache": True}),
    "gpt2_made_on_the_device": (("gpt2", "--dtype", "bf16", "--optimizer", "adafactor"),
                                {**OF_GPT2, "precision": "bf16-autocast", "use_cache": False, "optimizer": "adafactor"}),
    "llama_converted_on_the_device": (("llama", "--moved"), {**OF_LLAMA, "precision": "bf16"}),
}
MORE_PLAIN = {
    "gpt2_converted": (("gpt2", "--moved", "--use-cache"), {**OF_GPT2, "precision": "bf16", "use_cache": True}),
    "gpt2_eager": (("gpt2", "--dtype", "fp32", "--attention", "eager", "--optimizer", "sgd_momentum"),
                   {**OF_GPT2, "precision": "fp32", "use_cache": False, "attention": "eager", "optimizer": "sgd"}),
    "gpt2_trainer": (("gpt2", "--loop", "trainer", "--dtype", "bf16"), {**OF_GPT2, "precision": "bf16-autocast", "use_cache": False}),
    "qwen2": (("qwen2", "--moved", "--use-cache", "--dtype", "fp32"), {**OF_LLAMA, "model_type": "qwen2", "precision": "fp32"}),
}


class Plain(Case):
    def job(self, model, *options):
        """Runs a model of transformers."""
        config = os.path.join(self.dir, "config.json")
        with open(config, "w") as f:
            json.dump({"model_type": "gpt2", "n_layer": 4, "n_embd": 512, "n_head": 8, "vocab_size": 32000}, f)
        given = ("--config", config) if model == "gpt2" else ()
        self.simulate([python(), os.path.join(JOBS, "hf.py"), "--model", model, *given, "--micro-batch", "3", "--seq", "384", *options])

    def check(self, _, row):
        options, job = row
        self.job(*options)
        found = match(self.traces)
        inferred = {each["key"]: each["value"] for each in found["inferred"]}
        self.assertEqual({key: inferred.get(key) for key in job}, {key: str(value).lower() if value in (True, False) else str(value) for key, value in job.items()})
        self.assertLess(abs(found["ranks"][0]["error"]), 0.005)

    def refused(self, *words):
        message = self.run_([MEMTRACE, "match", self.traces], status=2).stderr
        for word in (*words, "--config", "--set", "micro_batch_size", "seq_length", "precision"):
            self.assertIn(word, message)

    def test_adapters(self):
        """They are not inferred. What the message asks for is enough: a run of the model, by the PyTorch that the trace names."""
        self.job("llama", "--lora", "8")
        self.refused("adapters", "lora_rank")
        config = os.path.join(self.dir, "llama.json")
        with open(config, "w") as f:
            json.dump({"model_type": "llama", "hidden_size": 512, "intermediate_size": 1408, "num_hidden_layers": 4, "num_attention_heads": 8,
                       "num_key_value_heads": 2, "vocab_size": 32000, "tie_word_embeddings": False}, f)
        given = [word for each in ("micro_batch_size=3", "seq_length=384", "precision=bf16", "lora_rank=8") for word in ("--set", each)]
        found = match(self.traces, "--config", config, "--python", python(), *given)
        self.assertLess(abs(found["ranks"][0]["error"]), 0.01)

    def test_a_job_that_only_calls_its_model(self):
        self.simulate([python(), os.path.join(JOBS, "generate.py"), "--hidden", "256", "--heads", "4", "--batch", "2", "--prompt", "64", "--tokens", "4"])
        self.refused("forward pass of a training step")


add_tests(Inferred, FIRST, MORE)
add_tests(Plain, PLAIN, MORE_PLAIN)
