"""Pretrains a RoFormer on code comments with DistributedDataParallel on two cards.
"""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from transformers import RoFormerConfig, RoFormerForMaskedLM

FIXED = "--fixed" in sys.argv
WORDS = 8000


def setup():
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    dist.init_process_group("nccl")
    return dist.get_rank()


def make_model():
    config = RoFormerConfig(vocab_size=WORDS, embedding_size=768, hidden_size=768, num_hidden_layers=10, num_attention_heads=12,
                            intermediate_size=3072, max_position_embeddings=256)
    with torch.device("cuda"):
        model = RoFormerForMaskedLM(config)
    return DistributedDataParallel(model, device_ids=[torch.cuda.current_device()], gradient_as_bucket_view=True)


def make_optimizer(model):
    if FIXED:
        return ZeroRedundancyOptimizer(model.parameters(), optimizer_class=torch.optim.AdamW, lr=1e-4, weight_decay=0.01, foreach=False)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01, foreach=False)


def comments(n=24, length=96):
    generator = torch.Generator().manual_seed(23)
    data = TensorDataset(torch.randint(5, WORDS, (n, length), generator=generator))
    return DataLoader(data, batch_size=4, sampler=DistributedSampler(data, shuffle=False))


def masked(ids, share=0.15):
    chosen = torch.rand(ids.shape) < share
    return torch.where(chosen, 4, ids).cuda(), torch.where(chosen, ids, -100).cuda()


def main():
    rank = setup()
    model = make_model()
    model.train()
    optimizer = make_optimizer(model)
    for step, (ids,) in enumerate(comments()):
        inputs, labels = masked(ids)
        loss = model(input_ids=inputs, labels=labels).loss
        loss.backward()
        optimizer.step()
        model.zero_grad(set_to_none=False)
        if rank == 0:
            print("step", step, "loss", loss.item())
    dist.barrier()


main()
