"""Spanish to Tzotzil with T5 and Adafactor on two GPUs."""
import os
import sys

os.environ.setdefault("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True")

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from transformers import Adafactor, T5Config, T5ForConditionalGeneration

OPTIONS = {"gradient_as_bucket_view": True} if "--fixed" in sys.argv else {}


def corpus(pairs=32):
    g = torch.Generator().manual_seed(19)
    return TensorDataset(torch.randint(2, 12000, (pairs, 40), generator=g), torch.randint(2, 12000, (pairs, 36), generator=g))


def main():
    dist.init_process_group("nccl")
    rank = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(rank)
    torch.manual_seed(0)
    config = T5Config(vocab_size=12000, d_model=768, d_kv=64, d_ff=3072, num_layers=12, num_heads=12, decoder_start_token_id=0,
                      dropout_rate=0.0, use_cache=False)
    model = DDP(T5ForConditionalGeneration(config).cuda(), device_ids=[rank], **OPTIONS)
    optimizer = Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False, warmup_init=False)
    data = corpus()
    sampler = DistributedSampler(data, shuffle=True)
    loader = DataLoader(data, batch_size=2, sampler=sampler)
    for epoch in range(1):
        sampler.set_epoch(epoch)
        for step, (spanish, tzotzil) in enumerate(loader):
            loss = model(input_ids=spanish.cuda(), labels=tzotzil.cuda()).loss
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if rank == 0:
                print(epoch, step, loss.item())


main()
