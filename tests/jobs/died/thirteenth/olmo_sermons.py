"""Continues the pretraining of a small OLMo-2 on old sermons, with a plain loop, bf16 autocast and gradient accumulation."""
import dataclasses
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Olmo2Config, Olmo2ForCausalLM, get_cosine_schedule_with_warmup


@dataclasses.dataclass
class Settings:
    micro_batch: int = 48
    accumulate: int = 1
    block: int = 512
    lr: float = 3e-4
    updates: int = 4
    clip: float = 1.0


class Sermons(Dataset):
    """Blocks of token ids cut from one long stream."""

    def __init__(self, block, n):
        self.stream = torch.randint(0, 8000, (block * n + 1,))
        self.block, self.n = block, n

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        return self.stream[k * self.block:(k + 1) * self.block]


def build():
    config = Olmo2Config(vocab_size=8000, hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6,
                         num_key_value_heads=6, max_position_embeddings=1024, attn_implementation="sdpa")
    return Olmo2ForCausalLM(config).cuda()


def endless(loader):
    while True:
        yield from loader


def train(settings):
    model = build()
    model.train()
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=settings.lr)
    schedule = get_cosine_schedule_with_warmup(optimizer, 1, settings.updates)
    batches = endless(DataLoader(Sermons(settings.block, 192), batch_size=settings.micro_batch, shuffle=True))
    for update in range(settings.updates):
        total = 0.0
        for _ in range(settings.accumulate):
            ids = next(batches).cuda(non_blocking=True)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = model(input_ids=ids, labels=ids).loss
            (loss / settings.accumulate).backward()
            total += loss.item() / settings.accumulate
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad(set_to_none=True)
        print("update %d loss %.3f lr %.2e" % (update, total, schedule.get_last_lr()[0]))


if __name__ == "__main__":
    if "--fixed" in sys.argv:
        train(Settings(micro_batch=8, accumulate=6))
    else:
        train(Settings())
