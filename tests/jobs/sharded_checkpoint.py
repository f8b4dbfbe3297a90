"""FSDP2 and torch.distributed.checkpoint: saves, also asynchronously, and loads the saved states. Prints the states of this rank, and its files."""
import json
import os
import sys

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.fsdp import fully_shard

directory = os.path.join(sys.argv[1], os.environ["RANK"])
dist.init_process_group("cpu:gloo,cuda:nccl")
torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
model = torch.nn.Linear(1024, 1024, bias=False, device="cuda")
fully_shard(model)
optimizer = torch.optim.AdamW(model.parameters())
model(torch.randn(4, 1024, device="cuda")).sum().backward()
optimizer.step()
state, optimizer_state = get_state_dict(model, optimizer)
dcp.save({"model": state, "optimizer": optimizer_state}, checkpoint_id=directory)
written = sum(os.path.getsize(os.path.join(directory, f)) for f in os.listdir(directory) if f.endswith(".distcp"))
dcp.async_save({"model": state, "optimizer": optimizer_state}, checkpoint_id=directory + "-async").result()
if os.path.exists(os.path.join(directory, ".metadata")):
    dcp.load({"model": state, "optimizer": optimizer_state}, checkpoint_id=directory)
    set_state_dict(model, optimizer, model_state_dict=state, optim_state_dict=optimizer_state)
print(json.dumps({"rank": dist.get_rank(), "held": 3 * model.weight.to_local().numel() * 4, "written": written}), flush=True)
