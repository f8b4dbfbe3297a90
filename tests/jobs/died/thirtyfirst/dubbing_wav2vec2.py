"""Dubbing studio: aligns dialogue by a Wav2Vec2 CTC model; a preempted job goes on from its checkpoint."""
import os
import sys
import tempfile

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

FIXED = "--fixed" in sys.argv


def build():
    return Wav2Vec2ForCTC(Wav2Vec2Config(
        vocab_size=40, hidden_size=768, num_hidden_layers=8, num_attention_heads=12, intermediate_size=3072, conv_dim=(128,) * 7,
        layerdrop=0.0, mask_time_prob=0.0, ctc_zero_infinity=True, pad_token_id=0))


def preempted_run(path):
    """What the earlier job of the queue has left."""
    model = build()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    opt.step()
    weights = model.state_dict()
    torch.save({"step": 4000, "model": weights, "ema": {k: v.clone() for k, v in weights.items()},
                "best_model": {k: v.clone() for k, v in weights.items()}, "best_wer": 0.31, "optimizer": opt.state_dict()}, path)


class Session:
    def __init__(self, path, device="cuda"):
        self.device = device
        self.model = build().to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=1e-4)
        self.resume(path)

    def resume(self, path):
        ckpt = torch.load(path, map_location="cpu" if FIXED else self.device)
        self.model.load_state_dict(ckpt["model"])
        self.optimizer.load_state_dict(ckpt["optimizer"])
        self.step, self.best_wer = ckpt["step"], ckpt["best_wer"]
        self.ckpt = ckpt

    def train(self, steps):
        g = torch.Generator().manual_seed(self.step)
        self.model.train()
        for _ in range(steps):
            audio = torch.randn(4, 24000, generator=g).to(self.device)
            text = torch.randint(1, 40, (4, 20), generator=g).to(self.device)
            loss = self.model(audio, labels=text).loss
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            self.step += 1
            print("step", self.step, "ctc", loss.item(), "best wer so far", self.best_wer)


with tempfile.TemporaryDirectory() as folder:
    checkpoint = os.path.join(folder, "last.pt")
    preempted_run(checkpoint)
    Session(checkpoint).train(4)
