"""Goes on with the training of a GPT-2 on transliterated hieroglyphs after the night's job has ended."""
import copy
import os
import sys
import tempfile

import torch
from transformers import GPT2Config, GPT2LMHeadModel

MAP = "cpu" if "--fixed" in sys.argv else "cuda"
SIGNS = 1100


def build():
    return GPT2LMHeadModel(GPT2Config(vocab_size=SIGNS, n_positions=128, n_embd=512, n_layer=12, n_head=8, bos_token_id=0, eos_token_id=0))


def last_night(path):
    """Stands for the job that was stopped: writes what it would have left."""
    model = build()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    weights = model.state_dict()
    torch.save({"model": weights, "ema": {k: v.clone() for k, v in weights.items()}, "best": {k: v.clone() for k, v in weights.items()},
                "optimizer": optimizer.state_dict(), "step": 4000, "best_loss": 2.71}, path)


class Session:
    def __init__(self, path):
        self.checkpoint = torch.load(path, map_location=MAP)
        self.model = build().to("cuda")
        self.model.load_state_dict(self.checkpoint["model"])
        self.ema = copy.deepcopy(self.model).requires_grad_(False)
        self.ema.load_state_dict(self.checkpoint["ema"])
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-4)
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.step = self.checkpoint["step"]
        self.generator = torch.Generator().manual_seed(self.step)

    def train(self, steps, decay=0.999):
        self.model.train()
        for _ in range(steps):
            ids = torch.randint(1, SIGNS, (4, 96), generator=self.generator).to("cuda")
            loss = self.model(input_ids=ids, labels=ids).loss
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            with torch.no_grad():
                for mean, now in zip(self.ema.parameters(), self.model.parameters()):
                    mean.lerp_(now, 1 - decay)
            self.step += 1
            print("step", self.step, "loss", loss.item(), "best so far", self.checkpoint["best_loss"])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        last_night(path)
        Session(path).train(6)
