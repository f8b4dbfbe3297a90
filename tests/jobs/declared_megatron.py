"""The part of declared.py for Megatron-core: its local layers, schedules and optimizer."""
import json
import os
import sys

import torch

from declared_images import llava_of, llava_step, mimo_of, mimo_step, parts

STEPS = 3


def object_collectives_through_the_store():
    """On a device whose kernels do nothing, sizes computed there are not valid: objects use the store."""
    import pickle

    import torch.distributed.distributed_c10d as c10d
    counts = {}

    def key(group):
        ranks = tuple(c10d.get_process_group_ranks(group if group is not None else c10d.group.WORLD))
        counts[ranks] = counts.get(ranks, -1) + 1
        return ranks, "objects/%s/%d" % ("_".join(map(str, ranks)), counts[ranks])

    def all_gather_object(found, mine, group=None):
        store, (ranks, name) = c10d._get_default_store(), key(group)
        store.set("%s/%d" % (name, c10d.get_rank()), pickle.dumps(mine))
        for i, rank in enumerate(ranks):
            found[i] = pickle.loads(store.get("%s/%d" % (name, rank)))

    def broadcast_object_list(objects, src=None, group=None, device=None, group_src=None):
        store, (ranks, name) = c10d._get_default_store(), key(group)
        source = ranks[group_src] if group_src is not None else ranks[0] if src is None else src
        if c10d.get_rank() == source:
            store.set(name, pickle.dumps(list(objects)))
        else:
            objects[:] = pickle.loads(store.get(name))

    for module in (c10d, torch.distributed):
        module.all_gather_object, module.broadcast_object_list = all_gather_object, broadcast_object_list


def norms_of_torch():
    """Apex and Transformer Engine are missing: PyTorch's own norms are used, also with sequence parallelism."""
    import megatron.core.transformer.torch_norm as torch_norm

    def make(cls, config, hidden_size, eps=1e-5, **unused):
        kind = torch.nn.LayerNorm if config.normalization == "LayerNorm" else torch.nn.RMSNorm
        norm = kind(hidden_size, eps=eps)
        for parameter in norm.parameters():
            parameter.sequence_parallel = config.sequence_parallel
        return norm

    torch_norm.WrappedTorchNorm.__new__ = make


def routers_of_torch():
    """Without Transformer Engine the router of Megatron-core 0.16.1 fails at a missing name, which means None."""
    from megatron.core.transformer.moe import moe_utils
    if not hasattr(moe_utils, "te_general_gemm"):
        moe_utils.te_general_gemm = None


def deterministic_permutation():
    """Megatron-LM's command line makes all of PyTorch's algorithms deterministic. The simulated device computes a router's map of tokens without
    that alone, so that only the sum of the experts' results has it here."""
    from megatron.core.transformer.moe import token_dispatcher
    unpermute = token_dispatcher.unpermute

    def deterministic(*args, **more):
        torch.use_deterministic_algorithms(True)
        try:
            return unpermute(*args, **more)
        finally:
            torch.use_deterministic_algorithms(False)

    token_dispatcher.unpermute = deterministic


LINEAR = ("attention_output_gate", "experimental_attention_variant", "linear_conv_kernel_dim", "linear_key_head_dim", "linear_value_head_dim",
          "linear_num_key_heads", "linear_num_value_heads")


def discarded_outputs_without_fp8():
    """CheckpointWithoutOutput of Megatron-core 0.16.1 asks Transformer Engine whether fp8 is on, also if it is not installed."""
    import contextlib

    from megatron.core.tensor_parallel import random

    class Off:
        is_fp8_enabled = staticmethod(lambda: False)

    if not hasattr(random, "FP8GlobalStateManager"):
        random.FP8GlobalStateManager = Off
        random.activation_recompute_forward = random.fp8_autocast = lambda *args, **more: contextlib.nullcontext()


def attention_of_two_widths():
    """Megatron-core's latent attention asks for widths of keys and values, which its own DotProductAttention does not know, and takes
    Transformer Engine's layers for installed."""
    from megatron.core.models import backends
    from megatron.core.extensions.transformer_engine import HAVE_TE
    from megatron.core.transformer import multi_latent_attention
    from megatron.core.transformer.dot_product_attention import DotProductAttention

    class Attention(DotProductAttention):
        def __init__(self, *args, k_channels=None, v_channels=None, **more):
            super().__init__(*args, **more)

    backends.LocalSpecProvider.core_attention = lambda self: Attention
    multi_latent_attention.HAVE_TE = HAVE_TE


def offloading_without_te():
    """Megatron-core's offloading tells Transformer Engine's layers, which are missing, to mark their tensors; the local ones have none to mark."""
    import types

    from megatron.core.extensions import transformer_engine
    transformer_engine.cpu_offload = transformer_engine.cpu_offload or types.SimpleNamespace(CPUOffloadEnabled=False)


KINDS = {"bf16-mixed": torch.bfloat16, "fp16-mixed": torch.float16, "fp32": torch.float32}


def config_of(job):
    from megatron.core.transformer.transformer_config import MLATransformerConfig, TransformerConfig
    latent = job.get("multi_latent_attention", False)
    gated, kind = job["swiglu"], KINDS[job["precision"]]
    experts = {k: job[k] for k in ("moe_router_topk", "moe_ffn_hidden_size", "moe_token_dispatcher_type", "expert_model_parallel_size",
                                   "expert_tensor_parallel_size", "moe_shared_expert_intermediate_size") if k in job}
    if "num_experts" in job:
        experts.update(num_moe_experts=job["num_experts"], moe_aux_loss_coeff=0.01)
    more = {k: job[k] for k in ("recompute_granularity", "recompute_method", "recompute_num_layers", "mtp_num_layers",
                                "pipeline_model_parallel_layout", "deterministic_mode", "overlap_moe_expert_parallel_comm",
                                "ep_overlap_early_attn_memory_release", *LINEAR) if k in job}
    if "linear_attention_freq" in job:
        more["linear_attention_freq"] = json.loads(job["linear_attention_freq"])
    if "recompute_modules" in job:
        more["recompute_modules"] = job["recompute_modules"].split(",")
    if job.get("fine_grained_activation_offloading"):
        more.update(fine_grained_activation_offloading=True, offload_modules=job["offload_modules"].split(","))
    if latent:
        more.update({k: job[k] for k in ("q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim")},
                    multi_latent_attention=True, qk_layernorm=job["qk_layernorm"])
    return (MLATransformerConfig if latent else TransformerConfig)(
        num_layers=job["num_layers"], hidden_size=job["hidden_size"], num_attention_heads=job["num_attention_heads"],
        num_query_groups=job["num_query_groups"], ffn_hidden_size=job["ffn_hidden_size"], normalization=job["normalization"],
        gated_linear_unit=gated, activation_func=torch.nn.functional.silu if gated else torch.nn.functional.gelu,
        add_bias_linear=job["add_bias_linear"], pipeline_dtype=kind, bf16=kind == torch.bfloat16, fp16=kind == torch.float16, params_dtype=kind,
        tensor_model_parallel_size=job.get("tensor_model_parallel_size", 1),
        pipeline_model_parallel_size=job.get("pipeline_model_parallel_size", 1),
        virtual_pipeline_model_parallel_size=job.get("virtual_pipeline_model_parallel_size"),
        sequence_parallel=job.get("sequence_parallel", False), gradient_accumulation_fusion=False, attention_softmax_in_fp32=True,
        variable_seq_lengths=False, batch_p2p_comm=True, overlap_p2p_comm=False, hidden_dropout=job.get("hidden_dropout", 0.0),
        attention_dropout=job.get("attention_dropout", 0.0), **more, **experts)


def other_model_of(job, config):
    """T5 and BERT, of local layers."""
    import copy

    from megatron.core import parallel_state
    from megatron.core.models.bert.bert_layer_specs import bert_layer_local_spec
    from megatron.core.models.bert.bert_model import BertModel
    from megatron.core.models.T5.t5_model import T5Model
    from megatron.core.models.T5.t5_spec import get_t5_decoder_with_local_block_spec, get_t5_encoder_with_local_block_spec
    from megatron.core.transformer import torch_norm
    same = {"share_embeddings_and_output_weights": True, "position_embedding_type": "learned_absolute"}
    if job["model_type"] == "t5":
        encoder = copy.deepcopy(config)
        encoder.num_layers = job["encoder_num_layers"]
        blocks = get_t5_encoder_with_local_block_spec(encoder.num_layers), get_t5_decoder_with_local_block_spec(config.num_layers)
        for block in blocks:  # their last norm is Transformer Engine's, and none without it
            block.layer_norm = torch_norm.WrappedTorchNorm
        return T5Model(config, encoder, *blocks, job["vocab_size"], job["seq_length"], **same)
    order = job.get("bert_binary_head", True)
    return BertModel(config, 2 if order else 0, bert_layer_local_spec, job["vocab_size"], job["seq_length"], add_binary_head=order,
                     pre_process=parallel_state.is_pipeline_first_stage(), post_process=parallel_state.is_pipeline_last_stage(), **same)


def kernels_of_delta_nets():
    """Megatron-core 0.16.1 imports flash-linear-attention's norm from where it was before 0.6.0, the first version for the Triton of PyTorch 2.15.
    Of each kernel's configurations two are compiled and measured: all of them need the same memory, and minutes."""
    from triton.runtime.autotuner import Autotuner
    make = Autotuner.__init__

    def with_two(self, fn, names, configs, *others, **named):
        make(self, fn, names, configs[:2], *others, **named)

    Autotuner.__init__ = with_two
    import fla.modules.norm.l2norm as l2norm
    sys.modules.setdefault("fla.modules.l2norm", l2norm)


def with_delta_nets(config, layers):
    """The layers of a stage: those that linear_attention_freq names attend by a gated delta net, whose layers Megatron-core 0.16.1 specifies for
    Transformer Engine alone."""
    import copy
    kernels_of_delta_nets()

    from megatron.core.models.gpt.experimental_attention_variant_module_specs import get_linear_attention_pattern
    from megatron.core.ssm.gated_delta_net import GatedDeltaNet, GatedDeltaNetSubmodules
    from megatron.core.tensor_parallel.layers import ColumnParallelLinear, RowParallelLinear
    from megatron.core.transformer.spec_utils import ModuleSpec
    from megatron.core.transformer.torch_norm import WrappedTorchNorm
    from megatron.core.transformer.transformer_block import TransformerBlockSubmodules, get_num_layers_to_build
    from megatron.core.transformer.transformer_layer import get_transformer_layer_offset
    linear = copy.deepcopy(layers)
    linear.submodules.self_attention = ModuleSpec(
        module=GatedDeltaNet, submodules=GatedDeltaNetSubmodules(in_proj=ColumnParallelLinear, out_norm=WrappedTorchNorm, out_proj=RowParallelLinear))
    first = get_transformer_layer_offset(config)
    kinds = get_linear_attention_pattern(config)[first:first + get_num_layers_to_build(config)]
    return TransformerBlockSubmodules(layer_specs=[linear if kind else layers for kind in kinds], layer_norm=WrappedTorchNorm)


def model_of(job, config):
    from megatron.core import parallel_state
    if "model_type" in job:
        if job["model_type"] in ("llava", "mimo"):
            from megatron.core.transformer.module import Float16Module
            return [Float16Module(config, (llava_of if job["model_type"] == "llava" else mimo_of)(job, config).cuda())]  # as in Megatron-LM: it converts the images, too
        return [other_model_of(job, config).cuda().to(config.params_dtype)]
    from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec, get_gpt_mtp_block_spec
    from megatron.core.models.gpt.gpt_model import GPTModel
    layers = get_gpt_layer_local_spec(num_experts=job.get("num_experts"), normalization=job["normalization"],
                                      multi_latent_attention=job.get("multi_latent_attention", False), qk_layernorm=job.get("qk_layernorm", False))
    if "experimental_attention_variant" in job:
        layers = with_delta_nets(config, layers)
    chunks = job.get("virtual_pipeline_model_parallel_size")
    made = []
    for chunk in range(chunks or 1):
        where = {"ignore_virtual": False, "vp_stage": chunk} if chunks else {}
        more = {"vp_stage": chunk} if chunks else {}
        if "mtp_num_layers" in job:
            more["mtp_block_spec"] = get_gpt_mtp_block_spec(config, layers, use_transformer_engine=False, **({"vp_stage": chunk} if chunks else {}))
        made.append(GPTModel(
            config, layers, job["vocab_size"], job["seq_length"],
            pre_process=parallel_state.is_pipeline_first_stage(**where), post_process=parallel_state.is_pipeline_last_stage(**where),
            share_embeddings_and_output_weights=not job["untie_embeddings_and_output_weights"],
            position_embedding_type=job["position_embedding_type"], **more).cuda().to(config.params_dtype))
    return made


def t5_step(job, model):
    """get_batch() and forward_step() of pretrain_t5.py"""
    from megatron.core.datasets.t5_dataset import T5MaskedWordPieceDataset
    b, encoder, decoder = job["micro_batch_size"], job["seq_length"], job["decoder_seq_length"]
    source, target, labels, weights, own, other = parts((b, encoder), (b, decoder), (b, decoder), (b, decoder), (b, encoder), (b, decoder))
    weights = weights.float()
    own, other, both = T5MaskedWordPieceDataset.config_attention_mask(source, target, own < 0.5, other < 0.5, True)
    output = model(source, target, own, other, both, lm_labels=labels)
    return output, lambda losses: (losses.float().mean(), {"loss": losses.float().mean().detach()})


def bert_step(job, model):
    """get_batch(), forward_step() and loss_func() of pretrain_bert.py"""
    b, s = job["micro_batch_size"], job["seq_length"]
    text, types, labels, order, weights, padding = parts((b, s), (b, s), (b, s), (b, 1), (b, s), (b, s))
    weights = weights.float()
    output = model(text, padding, tokentype_ids=types if job.get("bert_binary_head", True) else None, lm_labels=labels)

    def loss(made):
        losses, scores = made
        total = losses.float().mean()
        if scores is not None:
            total = total + torch.nn.functional.cross_entropy(scores.view(-1, 2).float(), order.view(-1), ignore_index=-1)
        return total, {"loss": total.detach()}

    return output, loss


def batches(job):
    if "model_type" in job:
        while True:
            yield job
    b, s = job["micro_batch_size"], job["seq_length"]
    while True:
        yield {"tokens": torch.zeros(b, s, dtype=torch.long, device="cuda"), "labels": torch.zeros(b, s, dtype=torch.long, device="cuda"),
               "positions": torch.arange(s, device="cuda").unsqueeze(0), "mask": torch.zeros(1, 1, s, s, dtype=torch.bool, device="cuda")}


def forward_step(iterator, model, return_schedule_plan=False):
    """return_schedule_plan: the micro-batch's nodes, which Megatron-core's combined schedule runs beside those of another one."""
    batch = next(iterator)
    if "model_type" in batch:
        return {"t5": t5_step, "bert": bert_step, "llava": llava_step, "mimo": mimo_step}[batch["model_type"]](batch, model)
    run = model.build_schedule_plan if return_schedule_plan else model
    output = run(batch["tokens"], batch["positions"], batch["mask"], labels=batch["labels"])

    def loss(losses):
        return losses.float().mean(), {"loss": losses.float().mean().detach()}

    return output, loss


def wrapped(job, config):
    """The model chunks in Megatron's wrapper: contiguous buffers, PyTorch's fully_shard, or its own FSDP."""
    if job.get("use_torch_fsdp2"):
        from megatron.core.distributed import TorchFullyShardedDataParallel
        from megatron.core.distributed.torch_fully_sharded_data_parallel_config import TorchFullyShardedDataParallelConfig

        class Sharded(TorchFullyShardedDataParallel):
            def finish_grad_sync(self, force_all_reduce=False):
                """As in later versions; that of 0.16.1 does not take the argument that it is given."""

        config.transformer_impl = "local"
        reduce = TorchFullyShardedDataParallelConfig(reshard_after_forward=job.get("reshard_after_forward", True))
        return [Sharded(config, reduce, model) for model in model_of(job, config)]
    from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig
    if job.get("use_megatron_fsdp"):
        import megatron.core.distributed.fsdp.mcore_fsdp_adapter as adapter
        if not isinstance(adapter.TELinear, type):  # without Transformer Engine it is no class, which isinstance() refuses
            adapter.TELinear = type("TELinear", (), {})
        reduce = DistributedDataParallelConfig(
            use_megatron_fsdp=True, data_parallel_sharding_strategy=job["data_parallel_sharding_strategy"], use_distributed_optimizer=True,
            grad_reduce_in_fp32=job["accumulate_allreduce_grads_in_fp32"], bucket_size=job.get("ddp_bucket_size"),
            overlap_grad_reduce=job.get("overlap_grad_reduce", False), overlap_param_gather=job.get("overlap_grad_reduce", False))
        models = [adapter.FullyShardedDataParallel(config, reduce, model) for model in model_of(job, config)]
        config.no_sync_func = models[0].no_sync
        return models
    reduce = DistributedDataParallelConfig(grad_reduce_in_fp32=job["accumulate_allreduce_grads_in_fp32"],
                                           use_distributed_optimizer=job.get("use_distributed_optimizer", False))
    return [DistributedDataParallel(config, reduce, model) for model in model_of(job, config)]


def megatron(job, write):
    object_collectives_through_the_store()
    norms_of_torch()
    routers_of_torch()
    discarded_outputs_without_fp8()
    if job.get("fine_grained_activation_offloading"):
        offloading_without_te()
    if job.get("multi_latent_attention"):
        attention_of_two_widths()
    from megatron.core import parallel_state
    from megatron.core.distributed import finalize_model_grads
    from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
    from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
    from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(
        job.get("tensor_model_parallel_size", 1), job.get("pipeline_model_parallel_size", 1),
        virtual_pipeline_model_parallel_size=job.get("virtual_pipeline_model_parallel_size"),
        expert_model_parallel_size=job.get("expert_model_parallel_size", 1),
        expert_tensor_parallel_size=job.get("expert_tensor_parallel_size", job.get("tensor_model_parallel_size", 1)))
    model_parallel_cuda_manual_seed(1)
    if job.get("deterministic_mode") and "num_experts" in job:
        deterministic_permutation()
    config = config_of(job)
    config.finalize_model_grads_func = finalize_model_grads
    sharded = job.get("use_distributed_optimizer", False)
    models = wrapped(job, config)
    optimizer = get_megatron_optimizer(OptimizerConfig(lr=1e-4, bf16=config.bf16, fp16=config.fp16, use_distributed_optimizer=sharded,
                                                       params_dtype=config.params_dtype, clip_grad=job.get("clip_grad", 1.0),
                                                       optimizer=job["optimizer"], sgd_momentum=job.get("momentum", 0.9)), models)
    run = get_forward_backward_func()
    tokens = llava_tokens(job) if job.get("model_type") == "llava" else job.get("decoder_seq_length", job["seq_length"])
    chunked, peaks = len(models) > 1, [torch.cuda.max_memory_allocated()]
    for _ in range(STEPS):
        torch.cuda.reset_peak_memory_stats()
        for model in models:
            model.zero_grad_buffer()
        optimizer.zero_grad()
        run(forward_step_func=forward_step, data_iterator=[batches(job) for _ in models] if chunked else batches(job),
            model=models if chunked else models[0], num_microbatches=job["num_microbatches"], seq_length=job["seq_length"],
            micro_batch_size=job["micro_batch_size"], decoder_seq_length=tokens, forward_only=False)
        optimizer.step()
        peaks.append(torch.cuda.max_memory_allocated())
    optimizer.zero_grad()  # as before every step: the state that the next forward pass begins with
    write(peaks=peaks)
