"""Continued pretraining of a Qwen2 on beekeepers' diaries, with gradient checkpointing, and perplexity now and then."""
import math
import sys

import torch
from torch.utils.data import DataLoader, Dataset
from transformers import Qwen2Config, Qwen2ForCausalLM

CONTEXT = 768


class Diaries(Dataset):
    def __init__(self, pages, seed):
        g = torch.Generator().manual_seed(seed)
        self.tokens = torch.randint(5, 8000, (pages, CONTEXT), generator=g)

    def __len__(self):
        return len(self.tokens)

    def __getitem__(self, i):
        return self.tokens[i]


def build():
    model = Qwen2ForCausalLM(Qwen2Config(
        vocab_size=8000, hidden_size=640, intermediate_size=2304, num_hidden_layers=10, num_attention_heads=10, num_key_value_heads=2,
        max_position_embeddings=2048, use_cache=False))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.to("cuda")


@torch.no_grad()
def perplexity(model, loader):
    model.eval()
    total = 0.0
    for ids in loader:
        total += model(input_ids=ids.to("cuda"), labels=ids.to("cuda")).loss.item()
    return math.exp(min(total / len(loader), 20.0))


def train(steps=16, every=6):
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.1)
    training, held_out = DataLoader(Diaries(8 * steps, 0), batch_size=8), DataLoader(Diaries(12, 1), batch_size=4)
    model.train()
    for step, ids in enumerate(training, 1):
        ids = ids.to("cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        if step % every == 0:
            print("step", step, "loss", loss.item(), "held out", perplexity(model, held_out))
            if "--fixed" in sys.argv:
                model.train()


train()
