"""Decoder of zither tablature; training goes on from a checkpoint of an earlier night."""
import os
import sys
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

FIXED = "--fixed" in sys.argv
VOCAB, WIDTH, DEPTH, CONTEXT = 900, 640, 9, 128


class TabDecoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(VOCAB, WIDTH), nn.Embedding(CONTEXT, WIDTH)
        layer = nn.TransformerEncoderLayer(WIDTH, 8, 4 * WIDTH, 0.0, "gelu", batch_first=True, norm_first=True)
        self.blocks = nn.TransformerEncoder(layer, DEPTH, enable_nested_tensor=False)
        self.head = nn.Linear(WIDTH, VOCAB)

    def forward(self, ids):
        n = ids.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(n, device=ids.device)
        h = self.tokens(ids) + self.places(torch.arange(n, device=ids.device))
        return self.head(self.blocks(h, mask=mask, is_causal=True))


def last_night(path):
    """Stands for the run of the night before, which was on another machine."""
    model = TabDecoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    torch.save({"step": 41_000, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "best": 2.31}, path)


class Run:
    def __init__(self, path):
        self.checkpoint = torch.load(path, map_location="cpu" if FIXED else "cuda")
        self.model = TabDecoder().cuda()
        self.model.load_state_dict(self.checkpoint["model"])
        self.optimizer = torch.optim.Adam(self.model.parameters(), lr=2e-4)
        self.optimizer.load_state_dict(self.checkpoint["optimizer"])
        self.step = self.checkpoint["step"]

    def go_on(self, steps):
        self.model.train()
        for _ in range(steps):
            ids = torch.randint(0, VOCAB, (4, CONTEXT)).cuda()
            logits = self.model(ids[:, :-1])
            loss = F.cross_entropy(logits.flatten(0, 1), ids[:, 1:].flatten())
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
        print("step", self.step, "loss", loss.item(), "best before", self.checkpoint["best"])


with tempfile.TemporaryDirectory() as folder:
    file = os.path.join(folder, "night.pt")
    last_night(file)
    run = Run(file)
run.go_on(5)
