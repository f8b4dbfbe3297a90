"""Trains a decoder on sagas with FSDP2 on two GPUs and saves model and optimizer as one file at the end of each part, to be loaded elsewhere."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.fsdp import fully_shard

FIXED = "--fixed" in sys.argv
VOCAB, WIDTH, HEADS, LAYERS, LENGTH = 8000, 640, 10, 10, 256


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm1, self.norm2 = nn.RMSNorm(WIDTH), nn.RMSNorm(WIDTH)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.Linear(4 * WIDTH, WIDTH, bias=False)

    def forward(self, x):
        q, k, v = (t.unflatten(-1, (HEADS, -1)).transpose(1, 2) for t in self.qkv(self.norm1(x)).chunk(3, -1))
        x = x + self.out(F.scaled_dot_product_attention(q, k, v, is_causal=True).transpose(1, 2).flatten(2))
        return x + self.down(F.silu(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCAB, WIDTH)
        self.layers = nn.ModuleList(Layer() for _ in range(LAYERS))
        self.norm, self.head = nn.RMSNorm(WIDTH), nn.Linear(WIDTH, VOCAB, bias=False)

    def forward(self, ids):
        x = self.embed(ids)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


def save(model, optimizer, folder, part):
    options = StateDictOptions(full_state_dict=True, cpu_offload=FIXED)
    weights, states = get_state_dict(model, optimizer, options=options)
    if dist.get_rank() == 0:
        path = os.path.join(folder, "part%d.pt" % part)
        torch.save({"model": weights, "optimizer": states, "part": part}, path)
        print("saved", os.path.getsize(path) >> 20, "MiB", flush=True)
        os.remove(path)
    dist.barrier()


def main():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    torch.manual_seed(0)
    model = Decoder()
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    model.to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    with tempfile.TemporaryDirectory() as folder:
        for part in range(2):
            for step in range(3):
                ids = torch.randint(VOCAB, (1, LENGTH + 1)).cuda()
                loss = F.cross_entropy(model(ids[:, :-1]).flatten(0, 1), ids[:, 1:].flatten())
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
            if dist.get_rank() == 0:
                print("part", part, "loss", loss.item(), flush=True)
            optimizer.zero_grad()
            save(model, optimizer, folder, part)


if __name__ == "__main__":
    main()
