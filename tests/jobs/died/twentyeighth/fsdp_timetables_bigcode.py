"""Two GPUs, FSDP: a GPTBigCode that completes railway timetables."""
import functools
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from transformers import GPTBigCodeConfig, GPTBigCodeForCausalLM
from transformers.models.gpt_bigcode.modeling_gpt_bigcode import GPTBigCodeBlock

WORDS = 3000


def setup():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    return rank


def policy():
    if "--fixed" in sys.argv:
        return functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={GPTBigCodeBlock})
    return None


def timetable_batches(rank, steps, batch=2, length=96):
    rng = torch.Generator().manual_seed(1000 + rank)
    for _ in range(steps):
        yield torch.randint(0, WORDS, (batch, length), generator=rng)


def main():
    rank = setup()
    torch.manual_seed(0)
    config = GPTBigCodeConfig(vocab_size=WORDS, n_positions=128, n_embd=1024, n_layer=12, n_head=16, use_cache=False)
    model = FSDP(GPTBigCodeForCausalLM(config), auto_wrap_policy=policy(), sharding_strategy=ShardingStrategy.FULL_SHARD,
                 device_id=torch.cuda.current_device(), use_orig_params=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
    model.train()
    for step, ids in enumerate(timetable_batches(rank, 5)):
        ids = ids.cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if rank == 0:
            print("step", step, "loss", loss.item())


main()
