"""Pretrains a decoder on medieval charters, sharded over two GPUs."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

WORDS, DIM, DEPTH, HEADS, CONTEXT = 4000, 1024, 12, 16, 128


class DecoderLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.attention_norm, self.mlp_norm = nn.RMSNorm(DIM), nn.RMSNorm(DIM)
        self.qkv, self.o = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, DIM, bias=False)
        self.gate, self.up = nn.Linear(DIM, 3 * DIM, bias=False), nn.Linear(DIM, 3 * DIM, bias=False)
        self.down = nn.Linear(3 * DIM, DIM, bias=False)

    def forward(self, x):
        b, t, _ = x.shape
        q, k, v = self.qkv(self.attention_norm(x)).view(b, t, 3, HEADS, -1).permute(2, 0, 3, 1, 4)
        x = x + self.o(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).reshape(b, t, DIM))
        h = self.mlp_norm(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.places = nn.Embedding(WORDS, DIM), nn.Embedding(CONTEXT, DIM)
        self.layers = nn.ModuleList([DecoderLayer() for _ in range(DEPTH)])
        self.norm, self.head = nn.RMSNorm(DIM), nn.Linear(DIM, WORDS, bias=False)

    def forward(self, ids):
        x = self.words(ids) + self.places.weight[:ids.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def shard(model, mesh):
    if "--fixed" in sys.argv:
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    rank, world = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cuda", (world,))
    with torch.device("meta"):
        model = Decoder()
    model = shard(model, mesh)
    model.to_empty(device="cuda")
    with torch.no_grad():
        for p in model.parameters():
            p.fill_(0.02)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
    g = torch.Generator().manual_seed(rank)
    for step in range(4):
        ids = torch.randint(0, WORDS, (2, CONTEXT + 1), generator=g).cuda()
        loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print("step", step, "loss", loss.item())


main()
