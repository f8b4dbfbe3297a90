"""Modernises the spelling of old cookery books with a T5 on two GPUs, sharded by FSDP. Start with torchrun."""
import functools
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
from torch.distributed.fsdp import ShardingStrategy
from torch.distributed.fsdp.wrap import transformer_auto_wrap_policy
from transformers import T5Config, T5ForConditionalGeneration
from transformers.models.t5.modeling_t5 import T5Block

FIXED = "--fixed" in sys.argv
VOCAB = 8000


def build_model():
    config = T5Config(vocab_size=VOCAB, d_model=768, d_kv=64, d_ff=2560, num_heads=12, num_layers=10, num_decoder_layers=10, decoder_start_token_id=0,
                      feed_forward_proj="gated-gelu", tie_word_embeddings=True, use_cache=False)
    torch.manual_seed(1747)
    return T5ForConditionalGeneration(config)


def shard(model, device):
    options = dict(sharding_strategy=ShardingStrategy.FULL_SHARD, device_id=device, use_orig_params=True)
    if FIXED:
        options["auto_wrap_policy"] = functools.partial(transformer_auto_wrap_policy, transformer_layer_cls={T5Block})
    return FSDP(model, **options)


def receipts(steps, rank, batch=2):
    g = torch.Generator().manual_seed(rank)
    for _ in range(steps):
        yield {"input_ids": torch.randint(2, VOCAB, (batch, 96), generator=g), "labels": torch.randint(2, VOCAB, (batch, 96), generator=g)}


def main():
    dist.init_process_group("nccl")
    rank, device = dist.get_rank(), int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(device)
    model = shard(build_model(), device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, fused=True)
    model.train()
    for step, batch in enumerate(receipts(5, rank)):
        loss = model(**{k: v.cuda() for k, v in batch.items()}).loss
        loss.backward()
        model.clip_grad_norm_(1.0)
        optimizer.step()
        optimizer.zero_grad()
        if rank == 0:
            print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
