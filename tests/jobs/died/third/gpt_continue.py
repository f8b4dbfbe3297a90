"""Continues a run of GPT-2. torch.load(..., map_location="cuda") reads weights and Adam's states to the GPU, and `checkpoint`
lives as long as main()."""
import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel

DEVICE = "cuda"
CONFIG = GPT2Config(n_embd=512, n_layer=8, n_head=8, vocab_size=12000, n_positions=512, use_cache=False)


def earlier_run(path):
    model = GPT2LMHeadModel(CONFIG)
    states = {i: {"step": torch.tensor(900.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
              for i, p in enumerate(model.parameters())}
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    saved = optimizer.state_dict()
    saved["state"] = states
    torch.save({"step": 900, "model": model.state_dict(), "optimizer": saved, "best": 3.7}, path)


def main():
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "last.pt")
        earlier_run(path)
        model = GPT2LMHeadModel(CONFIG).to(DEVICE)
        optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
        checkpoint = torch.load(path, map_location="cpu" if "--fixed" in sys.argv else DEVICE)
        model.load_state_dict(checkpoint["model"])
        optimizer.load_state_dict(checkpoint["optimizer"])
    start = checkpoint["step"]
    for step in range(start, start + 6):
        ids = torch.randint(0, CONFIG.vocab_size, (2, 256)).to(DEVICE)
        loss = model(ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item(), "best", checkpoint["best"])


main()
