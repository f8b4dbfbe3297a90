"""Fourteen findings on chest films with a large ViT, two GPUs, plain SGD as in the paper that we reproduce."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler
from transformers import ViTConfig, ViTForImageClassification


class Films(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, i):
        return torch.full((1, 112, 112), i / 24), torch.tensor([float((i >> (f % 4)) & 1) for f in range(14)])


def setup():
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl")
    return rank


rank = setup()
config = ViTConfig(image_size=112, patch_size=16, num_channels=1, hidden_size=1024, num_hidden_layers=14, num_attention_heads=16,
                   intermediate_size=4096, num_labels=14, problem_type="multi_label_classification")
model = ViTForImageClassification(config).cuda(rank)
options = {"gradient_as_bucket_view": True} if "--fixed" in sys.argv else {}
model = DDP(model, device_ids=[rank], find_unused_parameters=True, **options)
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, foreach=False)
sampler = DistributedSampler(Films(), shuffle=True, seed=3)
loader = DataLoader(Films(), batch_size=2, sampler=sampler)

for epoch in range(1):
    sampler.set_epoch(epoch)
    for n, (films, findings) in enumerate(loader):
        out = model(pixel_values=films.cuda(rank), labels=findings.cuda(rank))
        out.loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
        if rank == 0:
            print("epoch", epoch, "batch", n, "loss", out.loss.item())
