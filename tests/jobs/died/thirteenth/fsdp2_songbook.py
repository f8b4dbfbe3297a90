"""Scores the verses of a songbook with a GPT-2 like model under FSDP2 on two ranks, each block a unit of its own."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv


def setup():
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    return local, init_device_mesh("cuda", (dist.get_world_size(),))


def sharded(mesh):
    config = GPT2Config(vocab_size=4000, n_positions=256, n_embd=1536, n_layer=12, n_head=16)
    with torch.device("meta"):
        model = GPT2LMHeadModel(config)
    policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh, mp_policy=policy, reshard_after_forward=FIXED)
    fully_shard(model, mesh=mesh, mp_policy=policy)
    model.to_empty(device="cuda")
    with torch.no_grad():
        for p in model.parameters():
            torch.nn.init.normal_(p, std=0.02) if p.dim() > 1 else torch.nn.init.zeros_(p)
    return model


def songs(rank, n, batch=4, length=256):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(n):
        yield torch.randint(0, 4000, (batch, length), generator=generator)


def main():
    rank, mesh = setup()
    model = sharded(mesh)
    model.eval()
    total = torch.zeros((), device="cuda")
    with torch.no_grad():
        for step, ids in enumerate(songs(rank, 6)):
            ids = ids.cuda()
            total += model(input_ids=ids, labels=ids, use_cache=False).loss
            if rank == 0:
                print("verses", step, flush=True)
    dist.all_reduce(total)
    if rank == 0:
        print("mean loss", total.item() / 12, flush=True)
    dist.barrier()


main()
