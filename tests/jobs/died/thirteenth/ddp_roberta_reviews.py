"""Classifies long reviews with RoBERTa and DistributedDataParallel on two ranks; large model, few tokens a rank."""
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.optim import ZeroRedundancyOptimizer
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler
from transformers import RobertaConfig, RobertaForSequenceClassification

FIXED = "--fixed" in sys.argv


class Job:
    def __init__(self):
        self.rank = int(os.environ["LOCAL_RANK"])
        torch.cuda.set_device(self.rank)
        dist.init_process_group("nccl")
        config = RobertaConfig(vocab_size=8000, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
                               max_position_embeddings=260, num_labels=5)
        with torch.device("cuda"):
            model = RobertaForSequenceClassification(config)
        self.model = DistributedDataParallel(model, device_ids=[self.rank], gradient_as_bucket_view=True)
        if FIXED:
            self.optimizer = ZeroRedundancyOptimizer(self.model.parameters(), optimizer_class=torch.optim.AdamW, lr=2e-5)
        else:
            self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-5)

    def loader(self):
        data = TensorDataset(torch.randint(2, 8000, (32, 128)), torch.randint(0, 5, (32,)))
        return DataLoader(data, batch_size=2, sampler=DistributedSampler(data))

    def run(self):
        self.model.train()
        loader = self.loader()
        for epoch in range(1):
            loader.sampler.set_epoch(epoch)
            for ids, stars in loader:
                self.optimizer.zero_grad(set_to_none=True)
                loss = self.model(input_ids=ids.cuda(), attention_mask=torch.ones_like(ids).cuda(), labels=stars.cuda()).loss
                loss.backward()
                self.optimizer.step()
            if self.rank == 0:
                print("epoch", epoch, "loss", loss.item(), flush=True)


job = Job()
job.run()
dist.barrier()
