"""Continued pretraining on weather news with fully_shard on two ranks; every second step a whole checkpoint is written by the first rank."""
import os
import sys
import tempfile

import torch
import torch.distributed as dist
from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
from torch.distributed.fsdp import fully_shard
from transformers import GemmaConfig, GemmaForCausalLM

FIXED = "--fixed" in sys.argv


def make_model():
    config = GemmaConfig(vocab_size=8000, hidden_size=512, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=8, head_dim=64,
                         num_key_value_heads=8, max_position_embeddings=256, use_cache=False)
    model = GemmaForCausalLM(config)
    for block in model.model.layers:
        fully_shard(block)
    return fully_shard(model)


def save(model, optimizer, folder, step):
    options = StateDictOptions(full_state_dict=True, cpu_offload=FIXED)
    weights, states = get_state_dict(model, optimizer, options=options)
    if dist.get_rank() == 0:
        torch.save({"model": weights, "optimizer": states, "step": step}, os.path.join(folder, "step%d.pt" % step))
    dist.barrier()


def news(n, rank):
    generator = torch.Generator().manual_seed(40 + rank)
    for _ in range(n):
        yield torch.randint(3, 8000, (2, 64), generator=generator).to("cuda")


def main():
    dist.init_process_group("nccl")
    rank = dist.get_rank()
    torch.cuda.set_device(rank)
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    with tempfile.TemporaryDirectory() as folder:
        for step, ids in enumerate(news(4, rank)):
            loss = model(input_ids=ids, labels=ids).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if step % 2 == 1:
                save(model, optimizer, folder, step)
            if rank == 0:
                print("step", step, "loss", loss.item(), flush=True)


main()
