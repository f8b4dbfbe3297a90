# torchrun --nproc-per-node 2 ddp_parish_hands_roberta.py
"""Who wrote the entry? A RoBERTa on the words of parish registers tells sixty clerks apart; two GPUs, plain SGD as the paper has it."""
import os
import sys
from contextlib import contextmanager

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from transformers import RobertaConfig, RobertaForSequenceClassification

FIXED = "--fixed" in sys.argv
CLERKS, WORDS, LENGTH = 60, 24000, 48


@contextmanager
def process_group():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    yield local
    dist.destroy_process_group()


def entries(rank, steps, batch=4):
    g = torch.Generator().manual_seed(1700 + rank)
    for _ in range(steps):
        yield torch.randint(5, WORDS, (batch, LENGTH), generator=g), torch.randint(0, CLERKS, (batch,), generator=g)


def network(local):
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=WORDS, hidden_size=1024, num_hidden_layers=14, num_attention_heads=16, intermediate_size=4096, num_labels=CLERKS,
                           max_position_embeddings=LENGTH + 4)
    with torch.device("cuda", local):
        model = RobertaForSequenceClassification(config)
    return DistributedDataParallel(model, device_ids=[local], gradient_as_bucket_view=FIXED, find_unused_parameters=True)


def main():
    with process_group() as local:
        model = network(local)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
        schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.1, 6)
        for step, (words, clerks) in enumerate(entries(local, 6)):
            loss = model(input_ids=words.cuda(), labels=clerks.cuda()).loss
            loss.backward()
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            if local == 0:
                print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
