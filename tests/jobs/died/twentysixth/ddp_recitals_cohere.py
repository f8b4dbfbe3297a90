"""Programme notes for recitals: a Cohere model trained from scratch on two GPUs with Adafactor."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import CohereConfig, CohereForCausalLM

BATCH, LENGTH, VOCAB = 2, 128, 12000


def setup():
    dist.init_process_group(backend="nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    return local


def build(local):
    config = CohereConfig(vocab_size=VOCAB, hidden_size=1280, intermediate_size=3840, num_hidden_layers=16, num_attention_heads=16,
                          num_key_value_heads=16, max_position_embeddings=512, use_cache=False, pad_token_id=0)
    with torch.device("cuda", local):
        model = CohereForCausalLM(config)
    options = {"gradient_as_bucket_view": True} if "--fixed" in sys.argv else {}
    return DDP(model, device_ids=[local], **options)


def notes(rank, steps):
    g = torch.Generator().manual_seed(100 + rank)
    for _ in range(steps):
        yield torch.randint(1, VOCAB, (BATCH, LENGTH), generator=g)


def main():
    local = setup()
    model = build(local)
    optimizer = torch.optim.Adafactor(model.parameters(), lr=1e-3, foreach=False)
    for step, ids in enumerate(notes(dist.get_rank(), 5)):
        ids = ids.to(local)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if local == 0:
            print(f"step {step} loss {loss.item():.3f}", flush=True)
    dist.barrier()


if __name__ == "__main__":
    main()
