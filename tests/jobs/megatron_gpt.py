"""A GPT of Megatron-core: tensor, sequence, pipeline (1F1B, interleaved), context and expert parallelism, distributed optimizer, recomputation.

    megatron_gpt.py [--tp N] [--pp N] [--vpp N] [--cp N] [--ep N] [--sp] [--experts N] [--llama] ...

Megatron-core's local layers refuse sequence parallelism (their norm) and context parallelism (their attention): both are for
Transformer Engine, which needs a GPU's toolkit. Where one is asked for, megatron_layers.py stands in, through Megatron's own layer specs.
"""
import functools

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

from common import WORLD, Truth, finish, options, optimizer_tensors, start
from megatron_layers import layers

RECOMPUTE = {"none": {}, "selective": {"recompute_granularity": "selective"},
             "full": {"recompute_granularity": "full", "recompute_method": "uniform", "recompute_num_layers": 1}}


def arguments():
    p = options(layers=8, hidden=1024, heads=16, seq=1024, micro_batch=1, accumulate=4, attention="eager", clip=1.0)
    for name, megatron in (("tp", "tensor-model"), ("pp", "pipeline-model"), ("cp", "context"), ("ep", "expert-model")):
        p.add_argument("--" + name, f"--{megatron}-parallel-size", type=int, default=1)
    p.add_argument("--vpp", type=int, default=1, help="model chunks a pipeline stage")
    p.add_argument("--etp", type=int, default=1, help="tensor parallelism of experts")
    p.add_argument("--sp", "--sequence-parallel", action="store_true", help="sequence parallelism")
    p.add_argument("--experts", type=int, help="a mixture of so many experts in each layer")
    p.add_argument("--top-k", type=int, default=2)
    p.add_argument("--dispatcher", default="alltoall", choices=("alltoall", "allgather"))
    p.add_argument("--capacity", type=float, help="tokens an expert takes, as a factor; default: all that are routed to it")
    p.add_argument("--fused", action="store_true", help="Megatron-LM's default: SwiGLU as one operation, which keeps its input alone")
    p.add_argument("--llama", action="store_true", help="RMSNorm, SwiGLU, rotary positions, no biases")
    p.add_argument("--no-dist-opt", action="store_true")
    p.add_argument("--bf16-gradients", action="store_true", help="reduce gradients in bf16 instead of fp32")
    p.add_argument("--overlap", action="store_true", help="overlap_grad_reduce and overlap_param_gather")
    p.add_argument("--no-gloo", action="store_true")
    return p.parse_args()


def transformer_config(o):
    silu = {"activation_func": torch.nn.functional.silu, "gated_linear_unit": True, "add_bias_linear": False, "normalization": "RMSNorm", "bias_activation_fusion": o.fused}
    experts = {"num_moe_experts": o.experts, "moe_router_topk": o.top_k, "moe_token_dispatcher_type": o.dispatcher,
               "moe_ffn_hidden_size": o.ffn, "moe_expert_capacity_factor": o.capacity,
               "moe_router_load_balancing_type": "aux_loss", "moe_aux_loss_coeff": 0.01}
    return TransformerConfig(
        num_layers=o.layers, hidden_size=o.hidden, num_attention_heads=o.heads, num_query_groups=o.kv_heads, ffn_hidden_size=o.ffn,
        params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, bf16=True, hidden_dropout=0.0, attention_dropout=0.0,
        tensor_model_parallel_size=o.tp, pipeline_model_parallel_size=o.pp, context_parallel_size=o.cp,
        virtual_pipeline_model_parallel_size=o.vpp if o.vpp > 1 else None, expert_model_parallel_size=o.ep,
        expert_tensor_parallel_size=o.etp if o.experts else None, sequence_parallel=o.sp,
        gradient_accumulation_fusion=False, finalize_model_grads_func=finalize_model_grads,
        **RECOMPUTE[o.recompute], **(silu if o.llama else {}), **(experts if o.experts else {}))


def build(config, o):
    chunks = []
    for chunk in range(o.vpp):
        where = {"ignore_virtual": False, "vp_stage": chunk} if o.vpp > 1 else {}
        stage = {"vp_stage": chunk} if o.vpp > 1 else {}
        model = GPTModel(config, layers(config, o, chunk if o.vpp > 1 else None), o.vocab, o.seq,
                         pre_process=parallel_state.is_pipeline_first_stage(**where),
                         post_process=parallel_state.is_pipeline_last_stage(**where), share_embeddings_and_output_weights=False,
                         position_embedding_type="rope" if o.llama else "learned_absolute", **stage)
        chunks.append(model.cuda().bfloat16())
    ddp = DistributedDataParallelConfig(grad_reduce_in_fp32=not o.bf16_gradients, use_distributed_optimizer=not o.no_dist_opt,
                                        overlap_grad_reduce=o.overlap, overlap_param_gather=o.overlap and not o.no_dist_opt)
    return [DistributedDataParallel(config, ddp, model, disable_bucketing=i > 0) for i, model in enumerate(chunks)]


def data(o):
    """What a rank's slice of the sequence holds; nothing reads the numbers."""
    part = o.seq // o.cp
    while True:
        tokens = torch.zeros(o.micro_batch, part, dtype=torch.long, device="cuda")
        mask = torch.zeros(1, 1, part, part, dtype=torch.bool, device="cuda") if o.attention == "eager" else None
        yield tokens, tokens.clone(), torch.arange(part, device="cuda").unsqueeze(0), mask


def forward_step(batches, model):
    tokens, labels, positions, mask = next(batches)
    loss = model(tokens, positions, mask, labels=labels)
    return loss, lambda output: (output.float().mean(), {"loss": output.detach().float().mean()})


def tensors_of(chunks, optimizer):
    def collect():
        parameters = [p for chunk in chunks for p in chunk.parameters()]
        buffers = [b for chunk in chunks for b in chunk.buffers + chunk.expert_parallel_buffers]
        parts = getattr(optimizer, "chained_optimizers", [optimizer])
        masters = [p for part in parts for group in part.optimizer.param_groups for p in group["params"]]
        own = {p.untyped_storage().data_ptr() for p in parameters}
        masters = [p for p in masters if p.untyped_storage().data_ptr() not in own]
        return {"parameters": parameters, "gradients": [b.grad_data for b in buffers],
                "buffers": [b for chunk in chunks for b in chunk.module.buffers()],
                "optimizer_states": masters + [t for part in parts for t in optimizer_tensors(part.optimizer)]}
    return collect


def main():
    o = arguments()
    start(o)
    if WORLD == 1:
        torch.distributed.init_process_group("nccl", rank=0, world_size=1, store=torch.distributed.HashStore())
    parallel_state.initialize_model_parallel(o.tp, o.pp, o.vpp if o.vpp > 1 else None, context_parallel_size=o.cp,
                                             expert_model_parallel_size=o.ep, expert_tensor_parallel_size=o.etp if o.experts else None,
                                             create_gloo_process_groups=not o.no_gloo)
    model_parallel_cuda_manual_seed(1)
    config = transformer_config(o)
    chunks = build(config, o)
    optimizer = get_megatron_optimizer(OptimizerConfig(lr=1e-4, bf16=True, params_dtype=torch.bfloat16, clip_grad=o.clip,
                                                       use_distributed_optimizer=not o.no_dist_opt), chunks)
    elements = sum(p.numel() for chunk in chunks for p in chunk.parameters())
    truth = Truth("megatron", tensors_of(chunks, optimizer), elements=elements)
    run = functools.partial(get_forward_backward_func(), forward_step_func=forward_step, model=chunks if o.vpp > 1 else chunks[0],
                            num_microbatches=o.accumulate, seq_length=o.seq, micro_batch_size=o.micro_batch, forward_only=False)
    for _ in range(o.steps):
        for chunk in chunks:
            chunk.zero_grad_buffer()
        optimizer.zero_grad()
        truth.before_step()
        run(data_iterator=[data(o) for _ in chunks] if o.vpp > 1 else data(o))
        optimizer.step()
        truth.after_optimizer()
        truth.after_step()
    truth.print()
    finish()
    return chunks, optimizer


if __name__ == "__main__":
    kept = main()
