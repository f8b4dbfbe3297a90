"""Fine-tunes the encoder of our self-supervised run on labelled pulsar candidates. Takes the run's last training checkpoint."""
import os
import sys
import tempfile

import torch
import torch.nn as nn

CKPT_DEVICE = "cpu" if "--fixed" in sys.argv else "cuda"
DIM, DEPTH = 640, 8


class Encoder(nn.Module):
    """Phase-folded profiles, 64 sub-integrations of 128 bins, as a sequence."""

    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(128, DIM)
        self.pos = nn.Parameter(torch.zeros(1, 64, DIM))
        layer = nn.TransformerEncoderLayer(DIM, 8, 4 * DIM, dropout=0.0, batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)

    def forward(self, x):
        return self.layers(self.embed(x) + self.pos).mean(1)


class PulsarClassifier(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.head = encoder, nn.Linear(DIM, 2)

    def forward(self, x):
        return self.head(self.encoder(x))


def pretraining_run(path):
    """Stands for the run on the cluster: what train.py there saves every epoch."""
    encoder = Encoder()
    state = encoder.state_dict()
    moments = {i: {"step": torch.tensor(90000.0), "exp_avg": torch.zeros_like(p), "exp_avg_sq": torch.zeros_like(p)}
               for i, p in enumerate(encoder.parameters())}
    torch.save({"epoch": 300, "encoder": state, "optimizer": {"state": moments, "param_groups": [{"lr": 1e-4}]}}, path)


class Session:
    def __init__(self, path):
        self.ckpt = torch.load(path, map_location=CKPT_DEVICE)
        encoder = Encoder()
        encoder.load_state_dict(self.ckpt["encoder"])
        self.model = PulsarClassifier(encoder).to("cuda")
        self.optimizer = torch.optim.AdamW([
            {"params": self.model.encoder.parameters(), "lr": 2e-5},
            {"params": self.model.head.parameters(), "lr": 1e-3}])

    def fit(self, steps=8):
        gen = torch.Generator().manual_seed(1967)
        print("starting from epoch", self.ckpt["epoch"])
        for step in range(steps):
            x = torch.rand(16, 64, 128, generator=gen).to("cuda")
            y = torch.randint(0, 2, (16,), generator=gen).to("cuda")
            loss = nn.functional.cross_entropy(self.model(x), y)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            print(step, loss.item())


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.pt")
    pretraining_run(path)
    Session(path).fit()
