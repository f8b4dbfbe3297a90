"""Trains a small head for bird calls on top of a self-supervised audio encoder, whose weights stay as they are."""
import sys

import torch
import torch.nn as nn
from transformers import Wav2Vec2Config, Wav2Vec2Model

FIXED = "--fixed" in sys.argv
SPECIES = 40


def pretrained():
    config = Wav2Vec2Config(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536, conv_dim=(128,) * 7,
                            apply_spec_augment=False, layerdrop=0.0, num_conv_pos_embedding_groups=16, attn_implementation="sdpa")
    return Wav2Vec2Model(config)


class WeightedPool(nn.Module):
    """A learned average over time."""

    def __init__(self, dim):
        super().__init__()
        self.score = nn.Linear(dim, 1)

    def forward(self, x):
        return (x * self.score(x).softmax(1)).sum(1)


class BirdProbe(nn.Module):
    def __init__(self, encoder):
        super().__init__()
        self.encoder = encoder
        if FIXED:
            self.encoder.requires_grad_(False)
        dim = encoder.config.hidden_size
        self.head = nn.Sequential(WeightedPool(dim), nn.LayerNorm(dim), nn.Linear(dim, 256), nn.ReLU(), nn.Linear(256, SPECIES))

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, wave):
        return self.head(self.encoder(wave).last_hidden_state)


def calls(n, batch=8, seconds=4):
    for k in range(n):
        yield torch.zeros(batch, 16000 * seconds), torch.randint(SPECIES, (batch,))


def main():
    model = BirdProbe(pretrained()).cuda().train()
    optimizer = torch.optim.AdamW(model.head.parameters(), lr=1e-3)
    criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
    for step, (wave, species) in enumerate(calls(6)):
        loss = criterion(model(wave.cuda()), species.cuda())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print("step", step, "loss", loss.item())
    trained = sum(p.numel() for p in model.head.parameters())
    print("%.2f million parameters trained" % (trained / 1e6))


main()
