"""Causes in the caching allocator: fragmentation, caps, settings, retries. The jobs of diagnose_causes.py, which runs them."""
import os
import sys

import torch
from diagnose_model import adam, batch, build, loss_of, train

MiB = 1 << 20
FIX = "--fix" in sys.argv
STEPS = int(os.environ.get("STEPS", 0))


def block(mib):
    return torch.empty(mib * MiB, dtype=torch.uint8, device="cuda")


def fragmented():
    model = build(layers=2)
    train(model, adam(model, fused=True), 2, 2, 256)
    rows = [block(12) for _ in range(100)]      # pieces of 12 MiB in segments of their own size: none can be joined
    pairs = [torch.empty(9 * MiB, dtype=torch.uint8, device="cuda") for _ in range(160)]
    del rows
    kept = pairs[::2]
    del pairs
    block(1500)
    del kept


def checkerboard():
    big_one = [block(600) for _ in range(4)]
    del big_one
    rows = [block(100) for _ in range(22)]
    kept = rows[1::2]
    del rows
    block(300)
    del kept


def varying_lengths():
    import random
    random.seed(7)
    model, lengths = build(layers=6, width=256), []
    optimizer = adam(model, fused=True)
    cache = []
    for step in range(STEPS or 80):
        s = 256 if FIX else random.randrange(64, 1400)
        lengths.append(s)
        loss_of(model, batch(4, s)).backward()
        optimizer.step()
        optimizer.zero_grad()
        cache.append(torch.empty(s * 256, device="cuda"))    # a replay buffer of the last ones: small, and all over the place
        del cache[:-24]


def side_stream():
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        large = block(1200)
        del large
        small = block(600)
    kept = block(900)
    block(500)
    del small, kept


def graph_pool():
    model = build(layers=6, width=512).eval()
    x = batch(8, 1024)
    with torch.no_grad():
        model(x)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            outs = [model(x) for _ in range(2)]
    graph.replay()
    del outs
    block(STEPS or 2300)


def capped():
    torch.cuda.set_per_process_memory_fraction(0.3)
    model = build(layers=8, width=512)
    train(model, adam(model, fused=True), 3, 8, 1024)


def capped_by_setting():
    model = build(layers=8, width=512)
    train(model, adam(model, fused=True), 3, 8, 1024)


def conflicting_settings():
    model = build(layers=2)
    train(model, adam(model, fused=True), 4, 2, 512)


def retries():
    """Two sizes in turn; neither fits into the free memory that the other leaves, so the cache is flushed each time."""
    model = build(layers=2)

    def alternate(step, loss):
        a = block(1000 + step * 4)
        del a

    train(model, adam(model, fused=True), 20, 4, 512, after=alternate)


def emptied():
    model = build(layers=4)
    train(model, adam(model, fused=True), 20, 4, 512, after=lambda step, loss: None if FIX else torch.cuda.empty_cache())
