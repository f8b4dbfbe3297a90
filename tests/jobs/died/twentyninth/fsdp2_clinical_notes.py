"""Pretrains a decoder on clinical notes on two GPUs with fully_shard."""
import os
import sys
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import MistralConfig, MistralForCausalLM


@dataclass
class NotesConfig:
    vocab: int = 4000
    hidden: int = 768
    layers: int = 12
    length: int = 64
    batch: int = 2
    steps: int = 4
    lr: float = 2e-4
    shard_layers: bool = "--fixed" in sys.argv


def build(cfg):
    torch.manual_seed(0)
    return MistralForCausalLM(MistralConfig(
        vocab_size=cfg.vocab, hidden_size=cfg.hidden, intermediate_size=2304, num_hidden_layers=cfg.layers, num_attention_heads=12,
        num_key_value_heads=12, sliding_window=None, max_position_embeddings=cfg.length, use_cache=False))


def parallelise(model, mesh, cfg):
    if cfg.shard_layers:
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def notes(cfg, rank):
    g = torch.Generator().manual_seed(100 + rank)
    for _ in range(cfg.steps):
        yield torch.randint(2, cfg.vocab, (cfg.batch, cfg.length), generator=g).cuda()


def main():
    cfg = NotesConfig()
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    model = parallelise(build(cfg), mesh, cfg)
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, fused=True)
    for step, ids in enumerate(notes(cfg, rank)):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print("step", step, "loss", loss.item())


main()
