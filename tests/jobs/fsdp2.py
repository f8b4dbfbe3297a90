"""fully_shard over a small residual network, mixed precision, under torchrun."""
import os

import torch
import torch.nn as nn
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
torch.distributed.init_process_group("nccl")
model = nn.Sequential(*[Block(1024) for _ in range(6)])
policy = MixedPrecisionPolicy(param_dtype=torch.bfloat16, reduce_dtype=torch.float32)
for layer in model:
    fully_shard(layer, mp_policy=policy)
fully_shard(model, mp_policy=policy)
optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
for _ in range(3):
    model(torch.randn(64, 1024, device="cuda")).float().sum().backward()
    optimizer.step()
    optimizer.zero_grad()
torch.distributed.barrier()
torch.distributed.destroy_process_group()
