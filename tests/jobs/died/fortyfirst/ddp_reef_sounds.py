# torchrun --nproc-per-node 2 ddp_reef_sounds.py
"""Which of 80 fish and shrimps sound in each tenth of a second of a reef's recording: a convolutional net on two GPUs."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset, DistributedSampler

FIXED = "--fixed" in sys.argv
SOUNDS, SAMPLES = 80, 2048


class Reef(Dataset):
    """Spectrograms of 64 bands, and which sounds are in each column."""

    def __init__(self, count, seed):
        self.count, self.seed = count, seed

    def __len__(self):
        return self.count

    def __getitem__(self, i):
        g = torch.Generator().manual_seed(self.seed + i)
        return torch.rand(64, SAMPLES, generator=g), torch.randint(0, 2, (SOUNDS, SAMPLES), generator=g, dtype=torch.uint8)


class Listener(nn.Module):
    """Convolutions along time."""

    def __init__(self, width=192):
        super().__init__()
        layers, into = [], 64
        for i in range(5):
            layers += [nn.Conv1d(into, width, 5, padding=2 * 2 ** i, dilation=2 ** i), nn.BatchNorm1d(width), nn.ReLU(True)]
            into = width
        self.layers, self.sounds = nn.Sequential(*layers), nn.Conv1d(width, SOUNDS, 1)

    def forward(self, x):
        return self.sounds(self.layers(x))


def average_precision(scores, truth):
    order = scores.flatten().argsort(descending=True)
    hits = truth.flatten()[order].float().cumsum(0)
    return (hits / torch.arange(1, len(hits) + 1)).mean().item()


@torch.no_grad()
def evaluate(model, loader, device):
    """Each rank hears its half; the scores of both are brought together, since the measure needs all of them."""
    model.eval()
    scores, truths = [], []
    for x, y in loader:
        score, y = model.module(x.to(device)).sigmoid(), y.to(device)
        all_scores = [torch.empty_like(score) for _ in range(dist.get_world_size())]
        all_truths = [torch.empty_like(y) for _ in range(dist.get_world_size())]
        dist.all_gather(all_scores, score)
        dist.all_gather(all_truths, y)
        if FIXED:
            all_scores, all_truths = [s.cpu() for s in all_scores], [t.cpu() for t in all_truths]
        scores += all_scores
        truths += all_truths
    if dist.get_rank() == 0:
        some = slice(0, 4)
        print("average precision", average_precision(torch.stack([s[0, some] for s in scores]).cpu(), torch.stack([t[0, some] for t in truths]).cpu()))
    model.train()


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    device = torch.device("cuda", local)
    torch.manual_seed(0)
    model = DistributedDataParallel(Listener().to(device), device_ids=[local], gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    train, valid = Reef(96, 0), Reef(720, 5000)
    train_loader = DataLoader(train, batch_size=12, sampler=DistributedSampler(train))
    valid_loader = DataLoader(valid, batch_size=12, sampler=DistributedSampler(valid, shuffle=False))
    for x, y in train_loader:
        loss = nn.functional.binary_cross_entropy_with_logits(model(x.to(device)), y.to(device).float())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("rank", local, "loss", loss.item())
    evaluate(model, valid_loader, device)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
