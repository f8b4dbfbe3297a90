"""Trains a GPT on legal chat in two parts, as a queue with a time limit makes it: the second part begins with the file that the first has written."""
import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel

PLACE = "cpu" if "--fixed" in sys.argv else "cuda"


class Run:
    def __init__(self, folder, lr=3e-4):
        self.path = os.path.join(folder, "last.pt")
        config = GPT2Config(vocab_size=16000, n_embd=640, n_layer=10, n_head=10, n_positions=256, use_cache=False)
        self.model = GPT2LMHeadModel(config).to("cuda")
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=lr)
        self.checkpoint, self.step = {}, 0

    def resume(self):
        self.checkpoint = torch.load(self.path, map_location=PLACE)
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.step = self.checkpoint["step"]

    def train(self, until):
        self.model.train()
        while self.step < until:
            ids = torch.randint(0, 16000, (4, 192)).to("cuda")
            with torch.autocast("cuda", torch.bfloat16):
                loss = self.model(input_ids=ids, labels=ids).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad()
            self.step += 1
            print("step", self.step, "loss", loss.item(), "by", self.checkpoint.get("notes", {}).get("author", "nobody"))


def first_part(folder):
    """Stands for the job of yesterday; it leaves a file, with CPU tensors as its owner's cluster asks for."""
    torch.manual_seed(0)
    config = GPT2Config(vocab_size=16000, n_embd=640, n_layer=10, n_head=10, n_positions=256, use_cache=False)
    model = GPT2LMHeadModel(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    averaged = {k: v.clone() for k, v in model.state_dict().items()}
    torch.save({"model": model.state_dict(), "averaged": averaged, "optimizer": optimizer.state_dict(), "step": 1, "notes": {"author": "queue"}},
               os.path.join(folder, "last.pt"))


def main():
    with tempfile.TemporaryDirectory() as folder:
        first_part(folder)
        run = Run(folder)
        run.resume()
        run.train(until=5)


main()
