"""FSDP2: pretraining of a small Llama on veterinary notes on two GPUs (torchrun --nproc-per-node 2)."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

CONFIG = LlamaConfig(vocab_size=4000, hidden_size=896, intermediate_size=2432, num_hidden_layers=12, num_attention_heads=14,
                     num_key_value_heads=14, max_position_embeddings=512, use_cache=False, tie_word_embeddings=False)


def shard(model, mesh):
    if "--fixed" in sys.argv:
        for block in model.model.layers:
            fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


class Notes:
    def __init__(self, rank, size=2, length=128):
        self.g, self.shape = torch.Generator().manual_seed(100 + rank), (size, length)

    def __next__(self):
        return torch.randint(0, CONFIG.vocab_size, self.shape, generator=self.g)


def main():
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl")
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    torch.manual_seed(0)
    model = shard(LlamaForCausalLM(CONFIG), mesh).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, foreach=False)
    notes = Notes(dist.get_rank())
    for step in range(4):
        ids = next(notes).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print("step", step, "loss", loss.item())


main()
