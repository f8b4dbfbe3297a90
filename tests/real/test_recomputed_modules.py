"""Modules that selective recomputation discards, and modules whose activations are offloaded: the estimate against Megatron-core itself."""
import unittest

from harness import Case, MiB
from accuracy import estimates_of
from accuracy_modules import LATENT, errors
from accuracy_runs import MEGATRON

SMALL = {**MEGATRON, "num_layers": 4, "hidden_size": 512, "num_attention_heads": 8, "num_query_groups": 8, "ffn_hidden_size": 1536, "vocab_size": 2560,
         "seq_length": 512, "max_position_embeddings": 512, "micro_batch_size": 4, "num_microbatches": 2, "add_bias_linear": False,
         "recompute_granularity": "selective"}


class Modules(Case):
    def test_norms(self):
        """Tensors of one element each, 512 bytes for a block."""
        peak, steady, found = errors({**SMALL, "recompute_modules": "layernorm,mlp"})
        self.assertLessEqual(abs(peak) * found["peak_allocated_bytes"], 4096)
        self.assertLessEqual(abs(steady) * found["steady_bytes"], 4096)

    def test_latent_attention(self):
        """The steady state to the byte: each layer has tables of rotary positions. At the peak a rest of a block, below 1 MiB, is in another place."""
        job = {key: value for key, value in SMALL.items() if "recompute" not in key}
        peak, steady, found = errors({**job, **LATENT, "num_layers": 2, "q_lora_rank": 128, "kv_lora_rank": 64, "qk_head_dim": 32,
                                      "qk_pos_emb_head_dim": 32, "v_head_dim": 64})
        self.assertEqual(steady, 0)
        self.assertLessEqual(abs(peak) * found["peak_allocated_bytes"], MiB)

    def test_latent_attention_and_shared_experts(self):
        """The router's small tensors are not counted, with and without recomputation."""
        peak, _, _ = errors({**SMALL, **LATENT, "q_lora_rank": 128, "kv_lora_rank": 64, "qk_head_dim": 32, "qk_pos_emb_head_dim": 32, "v_head_dim": 64,
                             "num_experts": 4, "moe_router_topk": 2, "moe_token_dispatcher_type": "alltoall", "moe_ffn_hidden_size": 512,
                             "moe_shared_expert_intermediate_size": 2048, "recompute_modules": "layernorm,mla_up_proj,shared_experts"})
        self.assertLess(abs(peak), 0.01)

    def test_offloaded(self):
        """Unsplit rests of blocks, below 1 MiB each, are in other places. Without offloading the peak is more than a tenth higher."""
        job = {**SMALL, "seq_length": 1024, "max_position_embeddings": 1024, "num_microbatches": 3, "recompute_modules": "layernorm",
               "fine_grained_activation_offloading": True, "offload_modules": "attn_norm,mlp_norm,qkv_linear,core_attn,attn_proj"}
        peak, steady, found = errors(job)
        self.assertLess(abs(peak), 0.01)
        self.assertLess(abs(steady), 0.02)
        kept = {key: value for key, value in job.items() if "offload" not in key}
        self.assertGreater(estimates_of(kept)["memtrace"]["per_stage"][0]["peak_bytes"], 1.1 * found["peak_allocated_bytes"])


if __name__ == "__main__":
    unittest.main()
