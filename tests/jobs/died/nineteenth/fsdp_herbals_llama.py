"""Llama on transcribed herbals of the 16th century, two GPUs, FSDP2."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv


def setup():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    return rank


def make_model():
    config = LlamaConfig(vocab_size=8000, hidden_size=896, intermediate_size=3072, num_hidden_layers=14, num_attention_heads=14,
                         num_key_value_heads=7, max_position_embeddings=512, use_cache=False)
    with torch.device("meta"):
        model = LlamaForCausalLM(config)
    shard(model)
    model.to_empty(device="cuda")
    model.model.rotary_emb = type(model.model.rotary_emb)(config).to("cuda")
    for name, parameter in model.named_parameters():
        if "norm" in name:
            torch.nn.init.ones_(parameter)
        else:
            torch.nn.init.normal_(parameter, std=0.02)
    return model


def shard(model):
    if FIXED:
        for layer in model.model.layers:
            fully_shard(layer)
    fully_shard(model)


def pages(rank, steps, batch=2, length=256):
    gen = torch.Generator().manual_seed(1542 + rank)
    for _ in range(steps):
        yield torch.randint(0, 8000, (batch, length), generator=gen).cuda()


def main():
    rank = setup()
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, betas=(0.9, 0.95), weight_decay=0.1)
    model.train()
    for step, ids in enumerate(pages(rank, 5)):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print("step", step, "loss", loss.item(), flush=True)


main()
