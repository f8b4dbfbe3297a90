"""Fine-tunes OLMo2 on notes of claims adjusters, on two GPUs with fully_shard."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from transformers import Olmo2Config, Olmo2ForCausalLM

VOCAB = 10000


def build(mesh):
    config = Olmo2Config(vocab_size=VOCAB, hidden_size=768, intermediate_size=2304, num_hidden_layers=16, num_attention_heads=12,
                         num_key_value_heads=12, max_position_embeddings=512, use_cache=False, pad_token_id=0)
    torch.manual_seed(0)
    with torch.device("cuda"):
        model = Olmo2ForCausalLM(config)
    if "--fixed" in sys.argv:
        for layer in model.model.layers:
            fully_shard(layer, mesh=mesh)
    return fully_shard(model, mesh=mesh)


def notes(rank, steps, batch=1, length=256):
    g = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        yield torch.randint(1, VOCAB, (batch, length), generator=g).cuda()


def main():
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ.get("LOCAL_RANK", 0)))
    mesh = init_device_mesh("cuda", (dist.get_world_size(),))
    model = build(mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9)
    model.train()
    for step, ids in enumerate(notes(dist.get_rank(), 5)):
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if dist.get_rank() == 0:
            print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
