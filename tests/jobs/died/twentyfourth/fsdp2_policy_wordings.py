"""Continues the pretraining of a Llama on the wordings of insurance policies, sharded over two GPUs."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

VOCABULARY = 6000


def shard(model):
    if "--fixed" in sys.argv:
        for layer in model.model.layers:
            fully_shard(layer)
    fully_shard(model)
    return model


def build():
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=VOCABULARY, hidden_size=768, intermediate_size=2048, num_hidden_layers=16, num_attention_heads=12,
                         num_key_value_heads=12, max_position_embeddings=512, use_cache=False)
    with torch.device("cuda"):
        return LlamaForCausalLM(config)


def wordings(rank, steps, batch=2, length=192):
    generator = torch.Generator().manual_seed(100 + rank)
    for _ in range(steps):
        yield torch.randint(0, VOCABULARY, (batch, length), generator=generator).cuda()


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    model = shard(build())
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, betas=(0.9, 0.95))
    for step, ids in enumerate(wordings(rank, 5)):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print("step", step, "loss", loss.item(), flush=True)


main()
