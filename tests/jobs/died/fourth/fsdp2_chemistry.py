"""Adapts a Llama to SMILES strings with FSDP2 on two GPUs: only its norms and its head are trained, each block is sharded, small batches."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from transformers import LlamaConfig, LlamaForCausalLM

# "Faster, as the backward pass need not gather again", said a post.
RESHARD = "--fixed" in sys.argv


def setup():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    return init_device_mesh("cuda", (dist.get_world_size(),))


def sharded(mesh):
    torch.manual_seed(0)
    config = LlamaConfig(vocab_size=600, hidden_size=1024, intermediate_size=2816, num_hidden_layers=16, num_attention_heads=16,
                         num_key_value_heads=4,
                         max_position_embeddings=256, use_cache=False)
    model = LlamaForCausalLM(config)
    for name, p in model.named_parameters():
        p.requires_grad_("norm" in name or name.startswith("lm_head"))
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    for block in model.model.layers:
        fully_shard(block, mesh=mesh, reshard_after_forward=RESHARD, mp_policy=policy)
    fully_shard(model, mesh=mesh, reshard_after_forward=RESHARD, mp_policy=policy)
    return model


def strings(rank, n, length=96):
    generator = torch.Generator().manual_seed(rank)
    for _ in range(n):
        yield torch.randint(1, 600, (4, length), generator=generator).to("cuda")


def main():
    mesh = setup()
    model = sharded(mesh)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-3)
    for step, ids in enumerate(strings(dist.get_rank(), 4)):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if dist.get_rank() == 0:
            print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
