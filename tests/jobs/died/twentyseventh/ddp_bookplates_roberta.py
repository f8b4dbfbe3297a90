"""Which engraver made a bookplate (ex libris), by the words on it: RoBERTa on two GPUs, plain SGD with a small rate."""
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from transformers import RobertaConfig, RobertaForSequenceClassification

ENGRAVERS, WORDS = 120, 2500


def inscriptions(count=72, length=24):
    g = torch.Generator().manual_seed(70)
    return TensorDataset(torch.randint(3, WORDS, (count, length), generator=g), torch.randint(0, ENGRAVERS, (count,), generator=g))


def build(local):
    torch.manual_seed(0)
    config = RobertaConfig(vocab_size=WORDS, hidden_size=768, num_hidden_layers=10, num_attention_heads=12, intermediate_size=3072,
                           max_position_embeddings=66, num_labels=ENGRAVERS, pad_token_id=1)
    model = RobertaForSequenceClassification(config).cuda()
    options = {"init_sync": False}       # the same seed on both
    if "--fixed" in sys.argv:
        options["gradient_as_bucket_view"] = True
    return DDP(model, device_ids=[local], **options)


def main():
    dist.init_process_group("nccl")
    local = int(os.environ["LOCAL_RANK"])
    torch.cuda.set_device(local)
    dataset = inscriptions()
    sampler = DistributedSampler(dataset, shuffle=True, seed=4)
    loader = DataLoader(dataset, batch_size=2, sampler=sampler)
    model = build(local)
    optimizer = torch.optim.SGD(model.parameters(), lr=5e-3)
    for epoch in range(1):
        sampler.set_epoch(epoch)
        model.train()
        for ids, engraver in loader:
            optimizer.zero_grad()
            loss = model(input_ids=ids.cuda(), labels=engraver.cuda()).loss
            loss.backward()
            optimizer.step()
        if dist.get_rank() == 0:
            print(f"epoch {epoch} loss {loss.item():.4f}")


main()
