"""Tax forms: sequence tagger over the tokens of scanned forms, trained with FSDP2 on two GPUs."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class FormLayer(nn.Module):
    def __init__(self, d, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)
        self.qkv, self.o = nn.Linear(d, 3 * d), nn.Linear(d, d)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))
        self.heads = heads

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(self.n1(x)).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        x = x + self.o(nn.functional.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(b, t, d))
        return x + self.ff(self.n2(x))


class FormTagger(nn.Module):
    def __init__(self, vocab=4000, d=1024, layers=12, labels=30):
        super().__init__()
        self.tok, self.box = nn.Embedding(vocab, d), nn.Linear(4, d)
        self.layers = nn.ModuleList(FormLayer(d, 16) for _ in range(layers))
        self.out = nn.Linear(d, labels)

    def forward(self, ids, boxes):
        x = self.tok(ids) + self.box(boxes)
        for layer in self.layers:
            x = layer(x)
        return self.out(x)


def shard(model, mesh):
    if "--fixed" in sys.argv:
        for layer in model.layers:
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = shard(FormTagger(), mesh).cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    gen = torch.Generator().manual_seed(dist.get_rank())
    for step in range(4):
        ids = torch.randint(0, 4000, (2, 128), generator=gen).cuda()
        boxes = torch.rand(2, 128, 4, generator=gen).cuda()
        tags = torch.randint(0, 30, (2, 128), generator=gen).cuda()
        loss = nn.functional.cross_entropy(model(ids, boxes).flatten(0, 1), tags.flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print("step", step, "loss", loss.item())


main()
