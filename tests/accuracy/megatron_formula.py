"""Megatron-LM's own estimate, for docs/accuracy.md: bytes of the GPU with the most memory.

The formula is that of megatron/training/theoretical_memory_usage.py (Megatron-LM's main branch of 2026): 18 bytes for each parameter, or 6 + 12/d
with the distributed optimizer, and activations after Table 2 of Korthikanti et al. (2022) with sequence parallelism and selective
recomputation, otherwise s b h (10 + 24/t) for each layer and 5 % more. Keys are those of memtrace-config(5)."""


class Unsaid(Exception):
    """The formula does not model this option."""


def layers_with_experts(c):
    every = c.get("moe_layer_freq", "1")
    layers = c["num_layers"]
    if not c.get("num_experts"):
        return 0
    if str(every).startswith("["):
        return sum(int(x) for x in str(every).strip("[]").split(","))
    return sum(i % int(every) == 0 for i in range(layers))


def parameters(c):
    """Parameters (divided by tensor parallelism, complete on every rank, of routed experts) of all layers; of one embedding."""
    h, a = c["hidden_size"], c["num_attention_heads"]
    gate = 3 / 2 if c.get("swiglu") else 1
    norm = h * (1 if c.get("normalization") == "RMSNorm" else 2)
    groups, width = c.get("num_query_groups") or a, c.get("kv_channels") or h // a
    attention = 2 * h * h * (1 + groups / a) * (width * a / h)
    experts = layers_with_experts(c)
    dense = c["num_layers"] - experts
    mlp = 2 * h * c["ffn_hidden_size"] * gate
    shared = 2 * h * (c.get("moe_shared_expert_intermediate_size") or 0) * gate
    routed = 2 * h * (c.get("moe_ffn_hidden_size") or 0) * (c.get("num_experts") or 0) * gate
    split = (attention + mlp) * dense + (attention + shared) * experts
    whole = 2 * norm * c["num_layers"] + h * (c.get("num_experts") or 0) * experts + norm
    return split, whole, routed * experts, h * (c.get("padded_vocab_size") or c["vocab_size"])


def states(c):
    t, p = c.get("tensor_model_parallel_size", 1), c.get("pipeline_model_parallel_size", 1)
    d, cp = c.get("data_parallel_size", 1), c.get("context_parallel_size", 1)
    split, whole, routed, embedding = parameters(c)
    apart = c.get("expert_model_parallel_size", 1) * c.get("expert_tensor_parallel_size", t)
    matrices = 2 if c.get("untie_embeddings_and_output_weights") and p == 1 else 1

    def each(ranks):
        return 6 + 12 / ranks if c.get("zero_stage") or c.get("use_distributed_optimizer") else 18

    return ((split / p + matrices * embedding) / t + whole / p) * each(d) + routed / p / apart * each(max(1, t * cp * d // apart))


def activations(c):
    s, b, h, layers = c["seq_length"], c["micro_batch_size"], c["hidden_size"], c["num_layers"]
    t, p = c.get("tensor_model_parallel_size", 1), c.get("pipeline_model_parallel_size", 1)
    chunks, vocabulary = c.get("virtual_pipeline_model_parallel_size"), c.get("padded_vocab_size") or c["vocab_size"]
    parallel = c.get("sequence_parallel") and c.get("recompute_granularity") == "selective"
    layer = s * b * h * (18 + 4 * c["ffn_hidden_size"] / h if parallel else 10 + 24 / t)
    total = layer * layers + 8 * s * b * p + s * b * h * p
    if chunks:
        total *= 1 + (p - 1) / (p * chunks)
    elif p > 1:
        total *= min(1, c.get("num_microbatches", p) / p)
    if parallel:
        return (total + (4 * s * b * h * (1 + vocabulary / h) if p == 1 else 0)) / t
    return 1.05 * (total + (2 * (s * b * vocabulary / t + s * b * h) if p == 1 else 0))


def total(config):
    if config.get("multi_latent_attention") or config.get("mtp_num_layers"):
        raise Unsaid("latent attention and multi-token prediction are left out here")
    return states(config) + activations(config)
