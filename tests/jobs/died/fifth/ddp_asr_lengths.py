"""Trains a recogniser of dialects on two GPUs; recordings are spread over the ranks and padded to the longest of a batch."""
import os
import sys

import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset, DistributedSampler

SECONDS = [4, 6, 5, 3, 7, 4, 5, 6] * 8
SECONDS[41] = 38  # a radio play
LONGEST = 8 if "--fixed" in sys.argv else None


class Recordings(Dataset):
    def __len__(self):
        return len(SECONDS)

    def __getitem__(self, k):
        seconds = min(SECONDS[k], LONGEST) if LONGEST else SECONDS[k]
        return torch.zeros(seconds * 100, 80), k % 9


def collate(rows):
    features, dialects = zip(*rows)
    return pad_sequence(features, batch_first=True), torch.tensor(dialects)


class Recogniser(nn.Module):
    def __init__(self, width=256, layers=8):
        super().__init__()
        self.front = nn.Conv1d(80, width, 5, 2, 2)
        self.blocks = nn.ModuleList()
        for k in range(layers):
            self.blocks.append(nn.Sequential(nn.Conv1d(width, width, 7, padding=3 << k % 3, dilation=1 << k % 3, groups=8), nn.BatchNorm1d(width),
                                             nn.GELU(), nn.Conv1d(width, 2 * width, 1), nn.GELU(), nn.Conv1d(2 * width, width, 1)))
        self.attention = nn.Linear(width, 1)
        self.head = nn.Linear(width, 9)

    def forward(self, features):
        x = self.front(features.transpose(1, 2))
        for block in self.blocks:
            x = x + block(x)
        x = x.transpose(1, 2)
        return self.head((x * self.attention(x).softmax(1)).sum(1))


class Trainer:
    def __init__(self, rank):
        self.rank = rank
        self.model = DistributedDataParallel(Recogniser().cuda(), device_ids=[rank], gradient_as_bucket_view=True)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.sampler = DistributedSampler(Recordings(), shuffle=False)
        self.loader = DataLoader(Recordings(), batch_size=8, sampler=self.sampler, collate_fn=collate)

    def epoch(self, number):
        self.sampler.set_epoch(number)
        for features, dialects in self.loader:
            loss = nn.functional.cross_entropy(self.model(features.cuda()), dialects.cuda())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        if self.rank == 0:
            print("epoch", number, "loss", loss.item())


if __name__ == "__main__":
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dist.init_process_group("nccl", device_id=torch.device("cuda", local))
    trainer = Trainer(local)
    for n in range(2):
        trainer.epoch(n)
    dist.destroy_process_group()
