"""Megatron-core's local layers, with stand-ins for the two parts that they leave to Transformer Engine, put in through layer specs.

`Norm` is PyTorch's norm with its weights marked for sequence parallelism. `Attention` is PyTorch's scaled_dot_product_attention; with
context parallelism it first gathers keys and values over that group, as Transformer Engine's cp_comm_type all_gather does.
"""
import torch
from megatron.core import parallel_state
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.tensor_parallel.mappings import gather_from_sequence_parallel_region
from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build


class Norm:
    def __new__(cls, config, hidden_size, eps=1e-5, **_):
        norm = (torch.nn.LayerNorm if config.normalization == "LayerNorm" else torch.nn.RMSNorm)(hidden_size, eps=eps)
        for p in norm.parameters():
            p.sequence_parallel = config.sequence_parallel
        return norm


class Attention(torch.nn.Module):
    def __init__(self, config, layer_number, attn_mask_type, attention_type, **_):
        super().__init__()
        self.causal = config.context_parallel_size == 1

    def forward(self, query, key, value, attention_mask, **_):
        if not self.causal:
            group = parallel_state.get_context_parallel_group()
            key, value = (gather_from_sequence_parallel_region(t, group=group) for t in (key, value))
        q, k, v = (t.permute(1, 2, 0, 3) for t in (query, key, value))
        out = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal, enable_gqa=q.shape[1] != k.shape[1])
        return out.permute(2, 0, 1, 3).reshape(query.shape[0], query.shape[1], -1)


def layers(config, o, chunk):
    layer = get_gpt_layer_local_spec(num_experts=o.experts, normalization=config.normalization)
    parts = layer.submodules
    if o.attention == "sdpa" or o.cp > 1:
        parts.self_attention.submodules.core_attention = Attention
    norm = parts.input_layernorm
    if o.sp:
        norm = parts.input_layernorm = parts.pre_mlp_layernorm = Norm
    return TransformerBlockSubmodules(layer_specs=[layer] * get_num_layers_to_build(config, vp_stage=chunk), layer_norm=norm)
