# torchrun --nproc-per-node 2 fsdp_estate_maps_vit.py
"""Dates estate maps with a large ViT in FSDP2 over two GPUs; each step of the optimizer has the gradients of six small batches."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import ViTConfig, ViTForImageClassification

FIXED = "--fixed" in sys.argv
DECADES, ACCUMULATE = 30, 6


def sharded(local):
    torch.manual_seed(0)
    config = ViTConfig(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, intermediate_size=4096, image_size=224, patch_size=32,
                       num_labels=DECADES)
    with torch.device("meta"):
        model = ViTForImageClassification(config)
    for module in list(model.modules()):
        if type(module).__name__ == "ViTLayer":
            fully_shard(module)
    fully_shard(model).to_empty(device=torch.device("cuda", local))
    for p in model.parameters():
        torch.nn.init.trunc_normal_(p, std=0.02)
    return model


def maps(rank):
    g = torch.Generator().manual_seed(rank)
    while True:
        yield torch.rand(2, 3, 224, 224, generator=g).cuda(), torch.randint(0, DECADES, (2,), generator=g).cuda()


def accumulate(model, stream):
    """Gradients of some batches; in all but the last the ranks need not talk to each other."""
    total = 0.0
    for n in range(ACCUMULATE):
        model.set_requires_gradient_sync(FIXED or n == ACCUMULATE - 1)
        pictures, decades = next(stream)
        loss = model(pixel_values=pictures, labels=decades).loss / ACCUMULATE
        loss.backward()
        total += loss.item()
    return total


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    model, stream = sharded(local), maps(local)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for step in range(3):
        loss = accumulate(model, stream)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if local == 0:
            print("step", step, "loss", loss)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
