# torchrun --nproc-per-node 2 ddp_census_names.py
# Links names in two censuses: a wide character model gives a vector per name, trained with InfoNCE.
import os, sys
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import TensorDataset, DataLoader
from torch.utils.data.distributed import DistributedSampler


class NameEncoder(nn.Module):
    def __init__(self, chars=180, dim=1024, depth=8, out=256):
        super().__init__()
        self.chars = nn.Embedding(chars, dim, padding_idx=0)
        layer = nn.TransformerEncoderLayer(dim, 16, 4 * dim, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False)
        self.out = nn.Linear(dim, out)

    def forward(self, left, right):
        both = torch.cat([left, right])
        vectors = nn.functional.normalize(self.out(self.layers(self.chars(both)).mean(1)), dim=-1)
        return vectors.chunk(2)


def names(n=512, length=24):
    g = torch.Generator().manual_seed(1881)
    left = torch.randint(1, 180, (n, length), generator=g)
    typo = torch.rand(n, length, generator=g) < 0.1
    return TensorDataset(left, torch.where(typo, torch.randint(1, 180, (n, length), generator=g), left))


def setup():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    return local


def wrap(model, local):
    options = dict(device_ids=[local], broadcast_buffers=False)
    if "--fixed" in sys.argv:
        options["gradient_as_bucket_view"] = True
    return DDP(model, **options)


def run():
    local = setup()
    torch.manual_seed(0)
    model = wrap(NameEncoder().cuda(local), local)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    data = names()
    sampler = DistributedSampler(data)
    loader = DataLoader(data, batch_size=32, sampler=sampler)
    for epoch in range(2):
        sampler.set_epoch(epoch)
        for left, right in loader:
            a, b = model(left.cuda(local), right.cuda(local))
            loss = nn.functional.cross_entropy(a @ b.T / 0.05, torch.arange(len(a), device=a.device))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss.item():.3f}", flush=True)


if __name__ == "__main__":
    run()
