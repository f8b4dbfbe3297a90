"""Goes on with the pretraining of a ModernBERT from the last checkpoint, after the job was stopped by the queue.
"""
import os
import sys
import tempfile

import torch
from transformers import ModernBertConfig, ModernBertForMaskedLM

FIXED = "--fixed" in sys.argv
WORDS = 8000


def config():
    return ModernBertConfig(vocab_size=WORDS, hidden_size=640, intermediate_size=1280, num_hidden_layers=8, num_attention_heads=10,
                            max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2, cls_token_id=1, sep_token_id=2,
                            local_attention=64, attn_implementation="sdpa")


def stopped_run(path):
    """What the first job has left."""
    model = ModernBertForMaskedLM(config())
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for p in model.parameters():
        optimizer.state[p] = {"step": torch.tensor(7000.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    torch.save({"step": 7000, "model": model.state_dict(), "optimizer": optimizer.state_dict()}, path)


class Pretraining:
    def __init__(self, path):
        self.device = torch.device("cuda")
        self.model = ModernBertForMaskedLM(config()).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.checkpoint = torch.load(path, map_location="cpu" if FIXED else self.device)
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.first = self.checkpoint["step"]

    def masked(self, size=4, length=128):
        ids = torch.randint(3, WORDS, (size, length))
        hidden = torch.rand(size, length) < 0.3
        labels = torch.where(hidden, ids, -100)
        return torch.where(hidden, 3, ids).to(self.device), labels.to(self.device)

    def train(self, steps):
        self.model.train()
        for step in range(self.first, self.first + steps):
            ids, labels = self.masked()
            logits = self.model(input_ids=ids).logits
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten())
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            print("step", step, "loss", loss.item())


with tempfile.TemporaryDirectory() as directory:
    last = os.path.join(directory, "last.pt")
    stopped_run(last)
    Pretraining(last).train(4)
