"""Experts of Megatron-core that overlap with another micro-batch, and what deterministic algorithms save of them: the estimate against the real
framework on the simulated device."""
import unittest

from harness import Case
from accuracy import estimates_of
from accuracy_modules import errors
from accuracy_runs import MEGATRON

EXPERTS = {**MEGATRON, "num_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "num_query_groups": 8, "ffn_hidden_size": 1536, "vocab_size": 2560,
           "seq_length": 512, "max_position_embeddings": 512, "micro_batch_size": 4, "num_microbatches": 4, "add_bias_linear": False, "num_experts": 4,
           "moe_router_topk": 2, "moe_token_dispatcher_type": "alltoall", "moe_ffn_hidden_size": 1024, "expert_model_parallel_size": 2, "world_size": 2,
           "normalization": "RMSNorm", "swiglu": True}
OVERLAPPED = {**EXPERTS, "overlap_moe_expert_parallel_comm": True}
INTERLEAVED = {**OVERLAPPED, "world_size": 4, "pipeline_model_parallel_size": 2, "virtual_pipeline_model_parallel_size": 2}


def peak_of(job):
    return max(stage["peak_bytes"] for stage in estimates_of(job)["memtrace"]["per_stage"])


class Overlapped(Case):
    def test_one_stage(self):
        """Two micro-batches have activations at once. The router's small tensors are not counted."""
        peak, steady, found = errors(OVERLAPPED)
        self.assertLess(abs(peak), 0.003)
        self.assertLess(abs(steady), 0.003)
        self.assertLess(peak_of(EXPERTS), 0.9 * found["peak_allocated_bytes"])

    def test_attention_is_released_early(self):
        job = {**OVERLAPPED, "ep_overlap_early_attn_memory_release": True}
        peak, _, found = errors(job)
        self.assertLess(abs(peak), 0.004)
        self.assertGreater(peak_of(OVERLAPPED), 1.03 * found["peak_allocated_bytes"])

    def test_interleaved(self):
        """With multi-token prediction in the last chunk. The optimizer's states take cached blocks, whose rests below 1 MiB are not split off."""
        job = {**INTERLEAVED, "mtp_num_layers": 1, "pipeline_model_parallel_layout": "Et|tt|t|mL"}
        peak, steady, _ = errors(job)
        self.assertLess(abs(peak), 0.003)
        self.assertLess(abs(steady), 0.01)

    def test_offloaded(self):
        """Blocks that come back from the copies' stream lie in other places: rests below 1 MiB are not split off. After each exchange between the
        stages the host waits for the device, so that the blocks of all copies are free."""
        job = {**INTERLEAVED, "seq_length": 1024, "max_position_embeddings": 1024, "fine_grained_activation_offloading": True,
               "offload_modules": "attn_norm,mlp_norm,qkv_linear,core_attn,attn_proj"}
        peak, _, found = errors(job)
        self.assertLess(abs(peak), 0.008)
        reserved = max(stage["reserved_bytes"] for stage in estimates_of(job)["memtrace"]["per_stage"])
        self.assertLess(abs(reserved / found["peak_reserved_bytes"] - 1), 0.05)

    def test_refused(self):
        """Megatron-core refuses them, too."""
        for more in ({"expert_model_parallel_size": 1}, {"moe_token_dispatcher_type": "allgather"}, {"pipeline_model_parallel_size": 2, "world_size": 4},
                     {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}, {"mtp_num_layers": 1},
                     {"moe_shared_expert_intermediate_size": 512, "moe_shared_expert_overlap": True}):
            with self.subTest(more):
                self.assertNotIn("memtrace", estimates_of({**OVERLAPPED, **more}))
                kept = {key: value for key, value in OVERLAPPED.items() if not key.startswith("overlap")}
                self.assertIn("memtrace", estimates_of({**kept, **more}))


class Deterministic(Case):
    def test_saved(self):
        """index_add_() saves its source, the experts' results in their order: 8 MiB a layer with allgather, 4 MiB with alltoall, which sums up before
        the ranks of tensor parallelism have gathered their tokens."""
        job = {**EXPERTS, "seq_length": 1024, "max_position_embeddings": 1024, "swiglu": False, "normalization": "LayerNorm", "num_microbatches": 2,
               "tensor_model_parallel_size": 2, "expert_tensor_parallel_size": 2, "sequence_parallel": True, "world_size": 4, "deterministic_mode": True}
        for dispatcher in ("allgather", "alltoall"):
            with self.subTest(dispatcher):
                peak, _, found = errors({**job, "moe_token_dispatcher_type": dispatcher})
                self.assertLess(abs(peak), 0.002)
                kept = {"deterministic_mode": False, "moe_token_dispatcher_type": dispatcher}
                self.assertLess(peak_of({**job, **kept}), 0.995 * found["peak_allocated_bytes"])


if __name__ == "__main__":
    unittest.main()
