"""DDP on two GPUs; the evaluation gathers the predictions of all ranks before the metric.

https://github.com/huggingface/transformers/issues/22602
"""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

FIXED = "--fixed" in sys.argv


def tagger(vocab=8000, width=512, tags=4000):
    layer = nn.TransformerEncoderLayer(width, 8, 4 * width, batch_first=True, norm_first=True)
    return nn.Sequential(nn.Embedding(vocab, width), nn.TransformerEncoder(layer, 4, enable_nested_tensor=False), nn.Linear(width, tags))


def gather(tensor):
    parts = [torch.empty_like(tensor) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, tensor)
    return torch.cat(parts)


def train_epoch(model, optimizer):
    model.train()
    for _ in range(4):
        x, y = torch.randint(0, 8000, (8, 128), device="cuda"), torch.randint(0, 4000, (8, 128), device="cuda")
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@torch.no_grad()
def test(model, batches=16):
    model.eval()
    scores, labels = [], []
    for _ in range(batches):
        x, y = torch.randint(0, 8000, (16, 128), device="cuda"), torch.randint(0, 4000, (16, 128), device="cuda")
        logits = model(x)
        scores.append(gather(logits.argmax(-1) if FIXED else logits))
        labels.append(gather(y))
    scores, labels = [s if FIXED else s.argmax(-1) for s in scores], labels
    return sum((s == t).float().mean().item() for s, t in zip(scores, labels)) / batches


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
net = DDP(tagger().cuda(), device_ids=[int(os.environ["LOCAL_RANK"])])
adam = torch.optim.Adam(net.parameters(), lr=1e-4)
for epoch in range(2):
    train_epoch(net, adam)
    print(epoch, test(net))
dist.destroy_process_group()
