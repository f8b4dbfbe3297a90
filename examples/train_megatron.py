"""A GPT of Megatron-core: tensor parallelism over two GPUs, distributed optimizer.

    memtrace run -o traces -- torchrun --nproc-per-node 2 train_megatron.py
    memtrace report traces
"""
import os

import torch
from megatron.core import parallel_state
from megatron.core.distributed import DistributedDataParallel, DistributedDataParallelConfig, finalize_model_grads
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.models.gpt.gpt_model import GPTModel
from megatron.core.optimizer import OptimizerConfig, get_megatron_optimizer
from megatron.core.pipeline_parallel.schedules import get_forward_backward_func
from megatron.core.tensor_parallel.random import model_parallel_cuda_manual_seed
from megatron.core.transformer.transformer_config import TransformerConfig

from train_gpt2 import options


def batches(o):
    while True:
        tokens = torch.zeros(o.batch, o.length, dtype=torch.long, device="cuda")
        mask = torch.zeros(1, 1, o.length, o.length, dtype=torch.bool, device="cuda")
        yield tokens, torch.arange(o.length, device="cuda").unsqueeze(0), mask


def forward_step(data, model):
    tokens, positions, mask = next(data)
    return model(tokens, positions, mask, labels=tokens), lambda losses: (losses.float().mean(), {})


def main():
    o = options()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    torch.distributed.init_process_group("nccl")
    parallel_state.initialize_model_parallel(tensor_model_parallel_size=2)
    model_parallel_cuda_manual_seed(1)
    config = TransformerConfig(num_layers=o.layers, hidden_size=o.width, num_attention_heads=o.heads, tensor_model_parallel_size=2, bf16=True,
                               params_dtype=torch.bfloat16, pipeline_dtype=torch.bfloat16, hidden_dropout=0.0, attention_dropout=0.0,
                               gradient_accumulation_fusion=False, finalize_model_grads_func=finalize_model_grads)
    model = GPTModel(config, get_gpt_layer_local_spec(), o.vocabulary, o.length).cuda().bfloat16()
    model = DistributedDataParallel(config, DistributedDataParallelConfig(grad_reduce_in_fp32=True, use_distributed_optimizer=True), model)
    optimizer = get_megatron_optimizer(OptimizerConfig(lr=6e-4, bf16=True, params_dtype=torch.bfloat16, use_distributed_optimizer=True), [model])
    for _ in range(o.steps):
        model.zero_grad_buffer()
        optimizer.zero_grad()
        get_forward_backward_func()(forward_step_func=forward_step, data_iterator=batches(o), model=model, num_microbatches=1, seq_length=o.length,
                                    micro_batch_size=o.batch, forward_only=False)
        optimizer.step()
    print(f"rank {torch.distributed.get_rank()}: {torch.cuda.max_memory_allocated()} bytes at the most", flush=True)
    torch.distributed.destroy_process_group()


if __name__ == "__main__":
    main()
