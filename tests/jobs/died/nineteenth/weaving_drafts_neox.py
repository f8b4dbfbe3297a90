"""Language model over weaving drafts (threading, tie-up, treadling as tokens), with Accelerate. Drafts of like length share a batch."""
import random
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset, Sampler
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM, get_linear_schedule_with_warmup

VOCAB = 900
MAX_LEN = 512 if "--fixed" in sys.argv else None


class Drafts(Dataset):
    """Most drafts are short; the damasks of one archive are very long."""

    def __init__(self, seed=3):
        g = torch.Generator().manual_seed(seed)
        lengths = torch.randint(120, 420, (192,), generator=g).tolist() + torch.randint(2400, 2600, (16,), generator=g).tolist()
        self.items = [torch.randint(1, VOCAB, (n,), generator=g) for n in lengths]

    def __len__(self):
        return len(self.items)

    def __getitem__(self, i):
        return self.items[i][:MAX_LEN]


class Buckets(Sampler):
    def __init__(self, data, size, seed=11):
        order = sorted(range(len(data)), key=lambda i: len(data.items[i]))
        self.batches = [order[i:i + size] for i in range(0, len(order), size)]
        random.Random(seed).shuffle(self.batches)
        longest = max(range(len(self.batches)), key=lambda b: max(self.batches[b]))
        self.batches.insert(8, self.batches.pop(longest))  # "hard" drafts in the second half, as in the paper

    def __len__(self):
        return len(self.batches)

    def __iter__(self):
        return iter(self.batches)


def collate(items):
    ids = torch.nn.utils.rnn.pad_sequence(items, batch_first=True)
    labels = ids.masked_fill(ids == 0, -100)
    return {"input_ids": ids, "labels": labels}


def main():
    accelerator = Accelerator(gradient_accumulation_steps=2)
    config = GPTNeoXConfig(vocab_size=VOCAB, hidden_size=320, num_hidden_layers=6, num_attention_heads=5, intermediate_size=1280,
                           max_position_embeddings=4096, use_cache=False)
    model = GPTNeoXForCausalLM(config)
    data = Drafts()
    loader = DataLoader(data, batch_sampler=Buckets(data, 16), collate_fn=collate)
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4)
    scheduler = get_linear_schedule_with_warmup(optimizer, 4, 40)
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    model.train()
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
        accelerator.print(step, tuple(batch["input_ids"].shape), loss.item())


main()
