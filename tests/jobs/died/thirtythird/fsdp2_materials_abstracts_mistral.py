"""Pretrains a Mistral on abstracts of materials science on two GPUs with FSDP2 (fully_shard)."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import MistralConfig, MistralForCausalLM

FIXED = "--fixed" in sys.argv


def build(mesh):
    config = MistralConfig(vocab_size=16000, hidden_size=1024, intermediate_size=3072, num_hidden_layers=14, num_attention_heads=16,
                           num_key_value_heads=4, max_position_embeddings=512, sliding_window=None)
    torch.manual_seed(0)
    model = MistralForCausalLM(config)
    if FIXED:
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    model = build(mesh)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
    gen = torch.Generator().manual_seed(dist.get_rank())
    for step in range(5):
        ids = torch.randint(0, 16000, (2, 192), generator=gen).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print("step", step, "loss", loss.item())


main()
