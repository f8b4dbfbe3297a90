"""FSDP2 on two GPUs: a Mistral of about 300 million parameters on field notes from the sagebrush steppe."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import MistralConfig, MistralForCausalLM

FIXED = "--fixed" in sys.argv


def build():
    config = MistralConfig(vocab_size=8000, hidden_size=1024, intermediate_size=3584, num_hidden_layers=20, num_attention_heads=16,
                           num_key_value_heads=8, max_position_embeddings=1024, sliding_window=None, use_cache=False)
    with torch.device("meta"):
        model = MistralForCausalLM(config)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    if FIXED:
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    model.to_empty(device="cuda")
    with torch.no_grad():
        for name, p in model.named_parameters():
            if "norm" in name:
                p.fill_(1.0)
            else:
                p.normal_(0, 0.02)
        model.model.rotary_emb.inv_freq.copy_(1e4 ** (-torch.arange(0, 64, 2).float() / 64))
    return model


def notes(rank, batch=2, length=256):
    g = torch.Generator().manual_seed(rank)
    while True:
        yield torch.randint(0, 8000, (batch, length), generator=g).cuda()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, betas=(0.9, 0.95))
    for step, ids in zip(range(5), notes(dist.get_rank())):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print("step", step, "loss", loss.item())


main()
