"""Pre-trains a Llama on sermons with FullyShardedDataParallel on two GPUs."""
import functools
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from transformers import LlamaConfig, LlamaForCausalLM
from transformers.models.llama.modeling_llama import LlamaDecoderLayer


def build():
    torch.manual_seed(4)
    with torch.device("cuda"):
        return LlamaForCausalLM(LlamaConfig(
            vocab_size=4000, hidden_size=1024, intermediate_size=2816, num_hidden_layers=16, num_attention_heads=16, num_key_value_heads=4,
            max_position_embeddings=512, use_cache=False))


def shard(model):
    policy = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={LlamaDecoderLayer})
    return FSDP(model, auto_wrap_policy=policy if "--fixed" in sys.argv else None, sharding_strategy=ShardingStrategy.FULL_SHARD,
                device_id=torch.cuda.current_device(), use_orig_params=True, limit_all_gathers=True)


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = shard(build())
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), foreach=False)
    generator = torch.Generator().manual_seed(dist.get_rank())
    for step in range(5):
        ids = torch.randint(0, 4000, (1, 256), generator=generator).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print("step", step, "loss", loss.item())


main()
