"""Translates subtitles with a T5 under FSDP2 on two GPUs; a step is eight micro-batches, and gradients are reduced when the step ends."""
import argparse
import os

import torch
import torch.distributed as dist
from torch.distributed.fsdp import FSDPModule, fully_shard
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset
from transformers import T5Config, T5ForConditionalGeneration

MICRO_BATCHES = 8


class Trainer:
    def __init__(self, reduce_late):
        torch.manual_seed(0)
        config = T5Config(vocab_size=4000, d_model=640, d_kv=64, d_ff=2560, num_layers=18, num_heads=10, decoder_start_token_id=0, dropout_rate=0.0,
                          use_cache=False)
        self.model = T5ForConditionalGeneration(config)
        for stack in (self.model.encoder, self.model.decoder):
            for block in stack.block:
                fully_shard(block)
        fully_shard(self.model)
        assert isinstance(self.model, FSDPModule)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=1e-1, foreach=False)
        self.reduce_late = reduce_late

    def micro_batch(self, source, target, last):
        if self.reduce_late:
            self.model.set_requires_gradient_sync(last)
        loss = self.model(input_ids=source.cuda(), labels=target.cuda()).loss / MICRO_BATCHES
        loss.backward()
        return loss.detach()

    def epoch(self, loader):
        total = torch.zeros((), device="cuda")
        for k, (source, target) in enumerate(loader):
            last = k % MICRO_BATCHES == MICRO_BATCHES - 1
            total += self.micro_batch(source, target, last)
            if last:
                self.optimizer.step()
                self.optimizer.zero_grad()
        return total.item()


def subtitles(n=64):
    data = TensorDataset(torch.randint(1, 4000, (n, 32)), torch.randint(1, 4000, (n, 24)))
    return DataLoader(data, batch_size=2, sampler=DistributedSampler(data, shuffle=False))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    options = parser.parse_args()
    dist.init_process_group("nccl")
    torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    trainer = Trainer(reduce_late=not options.fixed)
    loss = trainer.epoch(subtitles())
    if dist.get_rank() == 0:
        print("loss", loss)


main()
