# torchrun --nproc_per_node 2 fsdp_chemlit_gpt2.py     GPT-2 on chemistry papers, FSDP2
import os
import sys
import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import GPT2Config, GPT2LMHeadModel

rank = int(os.environ["RANK"])
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
dist.init_process_group("nccl")
mesh = init_device_mesh("cuda", (dist.get_world_size(),))

cfg = GPT2Config(vocab_size=8192, n_positions=256, n_embd=896, n_layer=10, n_head=14, bos_token_id=0, eos_token_id=0, use_cache=False)
torch.manual_seed(0)
model = GPT2LMHeadModel(cfg)
if "--fixed" in sys.argv:
    for block in model.transformer.h:
        fully_shard(block, mesh=mesh)
fully_shard(model, mesh=mesh)

optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.1)
gen = torch.Generator().manual_seed(rank)


def papers():
    return torch.randint(1, 8192, (2, 128), generator=gen).cuda()


for step in range(5):
    ids = papers()
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if rank == 0:
        print("step", step, "loss", loss.item(), flush=True)
