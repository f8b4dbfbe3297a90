"""Resumes the training of a CodeGen model from yesterday's checkpoint, which has the weights, their average and Adam's states."""
import os
import sys
import tempfile

import torch
from transformers import CodeGenConfig, CodeGenForCausalLM

FIXED = "--fixed" in sys.argv
CONFIG = CodeGenConfig(vocab_size=12000, n_positions=256, n_ctx=256, n_embd=768, n_layer=8, n_head=12, rotary_dim=32)


def yesterday(path):
    """Stands for yesterday's job, which ran elsewhere."""
    model = CodeGenForCausalLM(CONFIG)
    state = {k: {"step": torch.tensor(900.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
             for k, p in enumerate(model.parameters())}
    groups = torch.optim.AdamW(model.parameters(), lr=1e-4).state_dict()["param_groups"]
    average = {k: v.clone() for k, v in model.state_dict().items()}
    torch.save({"step": 900, "model": model.state_dict(), "average": average, "optimizer": {"state": state, "param_groups": groups}}, path)


def resume(path):
    model = CodeGenForCausalLM(CONFIG).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    checkpoint = torch.load(path, map_location="cpu" if FIXED else "cuda")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    return model, optimizer, checkpoint


def batches(n):
    generator = torch.Generator().manual_seed(5)
    for _ in range(n):
        yield torch.randint(0, 12000, (4, 128), generator=generator).to("cuda")


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        yesterday(path)
        model, optimizer, checkpoint = resume(path)
    model.train()
    for step, ids in enumerate(batches(4), checkpoint["step"]):
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        print("step", step, "loss", loss.item())


main()
