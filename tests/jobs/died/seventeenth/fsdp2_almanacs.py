"""Language model on farmers' almanacs, sharded over two GPUs with FSDP2."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import GPT2Config, GPT2LMHeadModel


def setup():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    return rank, init_device_mesh("cuda", (dist.get_world_size(),))


def shard(model, mesh):
    if "--fixed" in sys.argv:
        for block in model.transformer.h:
            fully_shard(block, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    rank, mesh = setup()
    torch.manual_seed(1848)
    config = GPT2Config(vocab_size=3000, n_positions=256, n_embd=768, n_layer=14, n_head=12, bos_token_id=0, eos_token_id=0, use_cache=False)
    model = shard(GPT2LMHeadModel(config).to("cuda"), mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, weight_decay=0.05)
    warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=3)
    generator = torch.Generator().manual_seed(rank)
    for step in range(6):
        pages = torch.randint(1, 3000, (2, 128), generator=generator).to("cuda")
        loss = model(input_ids=pages, labels=pages).loss
        loss.backward()
        optimizer.step()
        warmup.step()
        optimizer.zero_grad()
        if rank == 0:
            print("step", step, "loss", loss.item())


main()
