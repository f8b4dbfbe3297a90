"""Pretrains a GPT-Neo with a large feed-forward on two GPUs with DDP."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from transformers import GPTNeoConfig, GPTNeoForCausalLM

FIXED = "--fixed" in sys.argv


def setup():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    return local


def build(local):
    torch.manual_seed(0)
    config = GPTNeoConfig(vocab_size=8000, hidden_size=768, num_layers=6, attention_types=[[["global", "local"], 3]], num_heads=12,
                          intermediate_size=6144, max_position_embeddings=256, window_size=64)
    return DistributedDataParallel(GPTNeoForCausalLM(config).cuda(local), device_ids=[local], gradient_as_bucket_view=True)


def optimizer_for(model):
    if FIXED:
        return ZeroRedundancyOptimizer(model.parameters(), torch.optim.AdamW, parameters_as_bucket_view=False, lr=3e-4)
    return torch.optim.AdamW(model.parameters(), lr=3e-4)


def main():
    local = setup()
    model = build(local)
    optimizer = optimizer_for(model)
    data = TensorDataset(torch.randint(0, 8000, (16, 96)))
    loader = DataLoader(data, batch_size=2, sampler=DistributedSampler(data))
    for step, (ids,) in enumerate(loader):
        ids = ids.cuda(local)
        loss = model(input_ids=ids, labels=ids, use_cache=False).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print(step, loss.item(), flush=True)


main()
