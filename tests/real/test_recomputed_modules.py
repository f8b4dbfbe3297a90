"""Modules that selective recomputation discards: the estimate against Megatron-core itself."""
import unittest

from harness import Case
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

    def test_latent_attention_and_shared_experts(self):
        """Rotary positions of latent attention and the router's small tensors are not counted, with and without recomputation."""
        peak, _, _ = errors({**SMALL, **LATENT, "q_lora_rank": 128, "kv_lora_rank": 64, "qk_head_dim": 32, "qk_pos_emb_head_dim": 32, "v_head_dim": 64,
                             "num_experts": 4, "moe_router_topk": 2, "moe_token_dispatcher_type": "alltoall", "moe_ffn_hidden_size": 512,
                             "moe_shared_expert_intermediate_size": 2048, "recompute_modules": "layernorm,mla_up_proj,shared_experts"})
        self.assertLess(abs(peak), 0.01)


if __name__ == "__main__":
    unittest.main()
