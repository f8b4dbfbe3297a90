"""
Adapts last week's GPT-Neo (bell-ringing notations) to the harbours of the north, with a fresh optimizer and a lower rate.
Last week's checkpoint is made here if there is none.
"""
import os
import sys
import tempfile

import torch
from transformers import GPTNeoConfig, GPTNeoForCausalLM

FIXED = "--fixed" in sys.argv
PATH = os.path.join(tempfile.mkdtemp(), "week03.pt")
VOCAB = 16000


def new_model():
    config = GPTNeoConfig(vocab_size=VOCAB, hidden_size=640, num_layers=8, num_heads=10, attention_types=[[["global", "local"], 4]],
                          max_position_embeddings=512, window_size=128)
    return GPTNeoForCausalLM(config)


def last_week():
    model = new_model()
    moments = {i: {"step": torch.tensor(900.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
               for i, p in enumerate(model.parameters())}
    groups = torch.optim.AdamW(model.parameters(), lr=1e-4).state_dict()["param_groups"]
    torch.save({"model": model.state_dict(), "optimizer": {"state": moments, "param_groups": groups}, "step": 900}, PATH)


class Run:
    def __init__(self, path):
        self.device = torch.device("cuda", 0)
        self.model = new_model().to(self.device)
        self.generator = torch.Generator().manual_seed(12)
        self.restore(path)

    def restore(self, path):
        self.checkpoint = torch.load(path, map_location="cpu" if FIXED else self.device)
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=self.checkpoint["optimizer"]["param_groups"][0]["lr"] / 5)
        self.step = self.checkpoint["step"]

    def batch(self, n=4, length=192):
        return torch.randint(0, VOCAB, (n, length), generator=self.generator).to(self.device)

    def train(self, steps):
        self.model.train()
        for _ in range(steps):
            ids = self.batch()
            loss = self.model(input_ids=ids, labels=ids).loss
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            print(f"step {self.step} (since {self.checkpoint['step']}): {loss.item():.3f}")


if not os.path.exists(PATH):
    last_week()
run = Run(PATH)
run.train(6)
os.remove(PATH)
