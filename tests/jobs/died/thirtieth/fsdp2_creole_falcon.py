"""Continues training a small Falcon on creole texts, sharded over two GPUs with FSDP2."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import FalconConfig, FalconForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB, LENGTH = 8000, 128


def build():
    config = FalconConfig(
        vocab_size=VOCAB, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, alibi=False, parallel_attn=True,
        multi_query=True, new_decoder_architecture=False, bias=False, use_cache=False, bos_token_id=0, eos_token_id=0)
    return FalconForCausalLM(config)


def shard(model, mesh):
    if FIXED:
        for block in model.transformer.h:
            fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def texts(rank, count, size=2):
    gen = torch.Generator().manual_seed(100 + rank)
    for _ in range(count):
        yield torch.randint(1, VOCAB, (size, LENGTH), generator=gen)


def main():
    dist.init_process_group("nccl")
    rank, local = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    torch.manual_seed(0)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    model = shard(build().cuda(), mesh)
    torch.cuda.empty_cache()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.05)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 4))
    model.train()
    for step, ids in enumerate(texts(rank, 8)):
        ids = ids.cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        warmup.step()
        if rank == 0:
            print("step", step, "loss", loss.item())


main()
