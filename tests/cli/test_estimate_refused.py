"""If our own system does not model a job, it refuses the job and names the key; it never estimates it as something else."""
import json
import os
import sys

from harness import Case, MEMTRACE, ROOT

sys.path.insert(0, os.path.join(ROOT, "tests"))
from accuracy_runs import FEED, FULL, GPT2, LLAMA, MEGATRON, MIXTRAL, ZERO  # noqa: E402

SELECTIVE = {"recompute_granularity": "selective"}
TWO = {"data_parallel_size": 2, "world_size": 2}
ZERO3 = {**MIXTRAL, **{k: v for k, v in ZERO.items() if k in ("framework", "precision", "overlap_comm", *TWO)}, "zero_stage": 3}
TORCH_FSDP = {**MEGATRON, **TWO, "use_torch_fsdp2": True, "use_distributed_optimizer": False}
OWN_FSDP = {**MEGATRON, **TWO, "use_megatron_fsdp": True, "data_parallel_sharding_strategy": "optim_grads_params"}
REFUSED = [
    # blocks of another model
    (GPT2, "swiglu", True), (GPT2, "num_query_groups", 4), (GPT2, "kv_channels", 128), (GPT2, "normalization", "RMSNorm"),
    (GPT2, "position_embedding_type", "rope"), (GPT2, "untie_embeddings_and_output_weights", True), (GPT2, "add_qkv_bias", True),
    (GPT2, "num_experts", 8), (LLAMA, "arch", "gpt"), (LLAMA, "swiglu", False), (LLAMA, "normalization", "LayerNorm"),
    (LLAMA, "position_embedding_type", "learned_absolute"), (LLAMA, "add_bias_linear", True), (LLAMA, "hidden_dropout", 0.1),
    (LLAMA, "num_query_groups", 3), (FEED, "num_experts", 8), (FEED, "swiglu", True),
    # features that the framework does not have
    ({**GPT2, **SELECTIVE}, "recompute_granularity", "selective"), ({**LLAMA, **SELECTIVE}, "recompute_granularity", "selective"),
    ({**FEED, **FULL}, "recompute_granularity", "full"), ({**MIXTRAL, **TWO}, "expert_model_parallel_size", 2),
    ({**MEGATRON, "world_size": 2}, "context_parallel_size", 2), (MEGATRON, "precision", "bf16"), (MEGATRON, "precision", "bf16-autocast"),
    (MEGATRON, "optimizer", "lion"), (MEGATRON, "optimizer", "sgd"), ({**ZERO, "zero_stage": 2}, "optimizer", "adagrad"),
    ({**GPT2, **TWO, "fsdp": True}, "optimizer", "adafactor"), ({**GPT2, **TWO, "fsdp": True}, "optimizer", "lion"),
    # features that no model has
    (MIXTRAL, "moe_router_topk", 99), ({**MIXTRAL, "num_experts": 4}, "moe_router_topk", 5), (MEGATRON, "num_query_groups", 3),
    ({**MEGATRON, "tensor_model_parallel_size": 2, "sequence_parallel": True, "world_size": 2}, "seq_length", 257),
    (TORCH_FSDP, "untie_embeddings_and_output_weights", False), (TORCH_FSDP, "use_distributed_optimizer", True),
    (TORCH_FSDP, "precision", "fp16-mixed"),
    # not modelled yet
    (TORCH_FSDP, "mtp_num_layers", 1), (OWN_FSDP, "mtp_num_layers", 1), (OWN_FSDP, "precision", "fp16-mixed"), (OWN_FSDP, "fsdp_double_buffer", True),
    (OWN_FSDP, "outer_dp_sharding_strategy", "optim"), (OWN_FSDP, "megatron_fsdp_main_grads_dtype", "bf16"), (OWN_FSDP, "use_nccl_ub", True),
    (ZERO3, "output_router_logits", True), ({**GPT2, **TWO, "fsdp": True, "fsdp_version": 1}, "optimizer", "muon"),
]


class Refused(Case):
    def test_by_the_key(self):
        for job, key, value in REFUSED:
            with self.subTest(framework=job["framework"], key=key, value=value):
                done = self.run_([MEMTRACE, "estimate", "--system", "memtrace", "--set", "%s=%s" % (key, json.dumps(value).strip('"')), "--config",
                                  self.job(job)], status=2)
                self.assertRegex(done.stderr, "^memtrace: %s is .*expected " % key)

    def test_without_the_key_they_are_estimated(self):
        for job in (GPT2, LLAMA, MIXTRAL, FEED, MEGATRON, ZERO, ZERO3, TORCH_FSDP, OWN_FSDP):
            self.run_([MEMTRACE, "estimate", "--system", "memtrace", "--config", self.job(job)])

    def job(self, job):
        path = os.path.join(self.dir, "job.json")
        with open(path, "w") as f:
            json.dump(job, f)
        return path
