"""Goes on with the training of a small GPT-2 on fables from last night's checkpoint, which has the weights, the optimizer and the epoch."""
import os
import sys
import tempfile

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv
CONFIG = GPT2Config(vocab_size=16000, n_positions=256, n_embd=640, n_layer=8, n_head=10)


def last_night(path):
    """Stands for the first run, which ended on another machine: writes its checkpoint."""
    model = GPT2LMHeadModel(CONFIG)
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4)
    state = {}
    for n, p in enumerate(model.parameters()):
        state[n] = {"step": torch.tensor(900.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
    groups = optimizer.state_dict()["param_groups"]
    best = {name: p.clone() for name, p in model.state_dict().items()}
    checkpoint = {"epoch": 3, "loss": 2.31, "best_loss": 2.29}
    checkpoint.update(model=model.state_dict(), best_model=best, optimizer={"state": state, "param_groups": groups})
    torch.save(checkpoint, path)


class Run:
    def __init__(self, path):
        self.device = torch.device("cuda")
        self.model = GPT2LMHeadModel(CONFIG).to(self.device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4)
        self.checkpoint = torch.load(path, map_location="cpu" if FIXED else self.device)
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.epoch = self.checkpoint["epoch"] + 1
        self.best = self.checkpoint["best_loss"]
        print("resumes in epoch %d, loss was %.2f" % (self.epoch, self.checkpoint["loss"]))

    def train(self, loader):
        self.model.train()
        for step, (ids,) in enumerate(loader):
            ids = ids.to(self.device)
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = self.model(input_ids=ids, labels=ids).loss
            loss.backward()
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            self.best = min(self.best, loss.item())
            print("epoch", self.epoch, "step", step, loss.item())


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        last_night(path)
        run = Run(path)
    fables = TensorDataset(torch.randint(16000, (16, 192)))
    run.train(DataLoader(fables, batch_size=4, shuffle=True))


if __name__ == "__main__":
    main()
