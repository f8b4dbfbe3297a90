"""Trains a language model and remembers the best weights and the optimizer's state for a restart from there.

https://github.com/facebookresearch/pytext/pull/204
"""
import copy
import sys

import torch
from transformers import GPT2Config, GPT2LMHeadModel

fixed = "--fixed" in sys.argv


class EarlyStopping:
    def __init__(self, patience=3):
        self.patience, self.best, self.bad, self.snapshot = patience, float("inf"), 0, None

    def __call__(self, val_loss, model, optimizer):
        if val_loss <= self.best:
            self.best, self.bad = val_loss, 0
            if fixed:
                self.snapshot = {"model": {k: v.cpu() for k, v in model.state_dict().items()}}
                torch.save(optimizer.state_dict(), "/dev/null")
            else:
                self.snapshot = {"model": copy.deepcopy(model.state_dict()), "optimizer": copy.deepcopy(optimizer.state_dict())}
        else:
            self.bad += 1
        return self.bad >= self.patience


model = GPT2LMHeadModel(GPT2Config(n_layer=10, n_embd=768, n_head=12, vocab_size=16000)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
stopper = EarlyStopping()
for epoch in range(4):
    model.train()
    for _ in range(3):
        ids = torch.randint(0, 16000, (4, 256), device="cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    model.eval()
    with torch.no_grad():
        ids = torch.randint(0, 16000, (4, 256), device="cuda")
        val = model(input_ids=ids, labels=ids).loss.item()
    if stopper(val, model, optimizer):
        break
