"""The same for several ranks, under torchrun: diagnose_ranks.py CAUSE [--fix]."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from diagnose_model import Block, adam, batch, build, loss_of, train
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

FIX = "--fix" in sys.argv
RANK, WORLD = int(os.environ["LOCAL_RANK"]), int(os.environ["WORLD_SIZE"])


def big(count=16):
    with torch.device("cuda"):
        return nn.Sequential(*[nn.Linear(2048, 2048, bias=False) for _ in range(count)])


def steps_of(model, optimizer, steps, rows=64):
    for _ in range(steps):
        model(torch.randn(rows, 2048, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def ddp_buckets():
    model = DistributedDataParallel(big(), device_ids=[RANK], gradient_as_bucket_view=FIX)
    steps_of(model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), 4)


def replicated_optimizer():
    model = DistributedDataParallel(big(), device_ids=[RANK], gradient_as_bucket_view=True)
    if FIX:
        from torch.distributed.optim import ZeroRedundancyOptimizer
        optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.Adam, lr=0.1, fused=True)
    else:
        optimizer = adam(model, fused=True)
    steps_of(model, optimizer, 4, rows=4096)


def fsdp_one_unit():
    model = big()
    for layer in model if FIX else ():
        fully_shard(layer)
    fully_shard(model)
    steps_of(model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), 3)


def fsdp_never_resharded():
    model = big()
    for layer in model:
        fully_shard(layer, reshard_after_forward=FIX)
    fully_shard(model)
    steps_of(model, torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), 3)


def fsdp_no_sync():
    model = big()
    for layer in model:
        fully_shard(layer)
    fully_shard(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, foreach=False)
    for step in range(3):
        for micro in range(4):
            model.set_requires_gradient_sync(FIX or micro == 3)
            model(torch.randn(64, 2048, device="cuda")).sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def first_gpu():
    """Every rank used GPU 0 before it selected its own."""
    model = build(layers=8, width=512)
    train(model, adam(model, fused=True), 3, 4, 1024)


def zero(stage, **keys):
    import deepspeed
    model = big().bfloat16()
    engine = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=0.1, foreach=False), config={
        "train_micro_batch_size_per_gpu": 64, "zero_allow_untested_optimizer": True, "bf16": {"enabled": True},
        "zero_optimization": {"stage": stage, **keys}})[0]
    for _ in range(3):
        engine.backward(engine(torch.randn(64, 2048, device="cuda", dtype=torch.bfloat16)).float().sum())
        engine.step()


def zero_buckets():
    """The default: 5e8 elements in a bucket, for a model of 67 million."""
    zero(2, **({"reduce_bucket_size": 5e6, "allgather_bucket_size": 5e6} if FIX else {}))


def zero3_live():
    """The default: 1e9 parameters may stay gathered, more than the model has."""
    zero(3, reduce_bucket_size=5e6, stage3_param_persistence_threshold=0,
         **({"stage3_max_live_parameters": 0, "stage3_max_reuse_distance": 0, "stage3_prefetch_bucket_size": 0} if FIX else {}))


def stage(layers, width, embedding=0, head=0):
    with torch.device("cuda"):
        parts = [nn.Embedding(embedding, width)] if embedding else []
        parts += [Block(width, 4, False) for _ in range(layers)]
        parts += [nn.Linear(width, head, bias=False)] if head else []
        return nn.Sequential(*parts)


def pipeline(model, micro_batches, b, s, width, vocabulary, one_forward_one_backward=True):
    """Two stages. The first holds the micro-batches in flight; the second ends each micro-batch at once."""
    optimizer = adam(model, fused=True)
    for _ in range(3):
        flying = []
        for i in range(micro_batches):
            if RANK == 0:
                out = model(batch(b, s, vocabulary))
                dist.send(out.detach(), 1)
                flying.append(out)
                if len(flying) == (2 if one_forward_one_backward else micro_batches):
                    finish(flying, one_forward_one_backward)
            else:
                x = torch.empty(b, s, width, device="cuda", requires_grad=True)
                dist.recv(x.data, 0)
                logits = model(x)
                torch.nn.functional.cross_entropy(logits.view(-1, logits.size(-1)), batch(b, s, 8).view(-1)).backward()
                dist.send(x.grad, 0)
        if RANK == 0:
            finish(flying, False)
        optimizer.step()
        optimizer.zero_grad()


def finish(flying, one):
    while flying:
        out = flying.pop(0)
        grad = torch.empty_like(out)
        dist.recv(grad, 1)
        out.backward(grad)
        if one:
            return


def handshake():
    """One exchange in both directions: NCCL's buffers for the peer are allocated before the model."""
    x = torch.zeros(1, device="cuda")
    for sender in (0, 1):
        (dist.send if RANK == sender else dist.recv)(x, 1 - RANK)


def pipeline_in_flight():
    dist.barrier()
    handshake()
    model = stage(6, 512, embedding=1024) if RANK == 0 else stage(6, 512, head=1024)
    pipeline(model, 8, 2, 512, 512, 1024, one_forward_one_backward=FIX)


def pipeline_logits():
    model = stage(2, 256, embedding=1024) if RANK == 0 else stage(2, 256, head=64000)
    pipeline(model, 4, 2, 1024, 256, 1024)


def pipeline_embedding():
    model = stage(2, 512, embedding=200000) if RANK == 0 else stage(2, 512, head=1024)
    pipeline(model, 4, 1, 256, 512, 1024)


def healthy_ddp():
    model = DistributedDataParallel(build(layers=4), device_ids=[RANK], gradient_as_bucket_view=True)
    model.vocabulary = 1024
    train(model, adam(model, fused=True), 5, 4, 512)


def healthy_fsdp():
    model = build(layers=4)
    for layer in model.layers:
        fully_shard(layer)
    fully_shard(model)
    train(model, adam(model, fused=True), 5, 4, 512, loss=loss_of)


if __name__ == "__main__":
    if sys.argv[1] != "first_gpu":
        torch.cuda.set_device(RANK)
    dist.init_process_group("nccl")
    if sys.argv[1] == "first_gpu":
        if RANK and not FIX:
            kept = torch.zeros(1, device="cuda:0")
        torch.cuda.set_device(RANK)
    dist.all_reduce(torch.zeros(1, device="cuda"))  # NCCL has its memory before the model has any
    globals()[sys.argv[1]]()
    dist.barrier()
    dist.destroy_process_group()
