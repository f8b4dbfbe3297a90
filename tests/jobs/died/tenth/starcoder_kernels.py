"""Continues the pretraining of a small StarCoder2 on kernel sources, in windows of 1024 tokens."""
import sys

import torch
from torch.utils.data import DataLoader, IterableDataset
from transformers import Starcoder2Config, Starcoder2ForCausalLM

WINDOW = 1024
ATTENTION = "sdpa" if "--fixed" in sys.argv else "eager"


class Windows(IterableDataset):
    """Cuts the concatenated files into windows."""

    def __init__(self, files, seed=11):
        self.files, self.seed = files, seed

    def __iter__(self):
        generator = torch.Generator().manual_seed(self.seed)
        rest = torch.empty(0, dtype=torch.long)
        for _ in range(self.files):
            length = int(torch.randint(300, 2600, (1,), generator=generator))
            source = torch.randint(3, 8000, (length,), generator=generator)
            rest = torch.cat([rest, source, torch.tensor([2])])
            while len(rest) >= WINDOW:
                yield rest[:WINDOW]
                rest = rest[WINDOW:]


def make_model():
    config = Starcoder2Config(vocab_size=8000, hidden_size=512, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=8,
                              num_key_value_heads=2, max_position_embeddings=2048, use_cache=False)
    config._attn_implementation = ATTENTION
    return Starcoder2ForCausalLM(config).to("cuda")


def parameter_groups(model, decay):
    with_decay = [p for p in model.parameters() if p.ndim > 1]
    without = [p for p in model.parameters() if p.ndim <= 1]
    return [{"params": with_decay, "weight_decay": decay}, {"params": without, "weight_decay": 0.0}]


def main():
    model = make_model()
    optimizer = torch.optim.AdamW(parameter_groups(model, 0.1), lr=2e-4, betas=(0.9, 0.95))
    loader = DataLoader(Windows(24), batch_size=4, drop_last=True)
    model.train()
    for step, ids in enumerate(loader):
        if step == 4:
            break
        ids = ids.to("cuda")
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print("step", step, "loss", loss.item())


main()
