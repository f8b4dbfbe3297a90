"""Detects stuttering with a small head on the hidden states of a wav2vec 2.0 encoder, which itself is not to be trained."""
import sys

import torch
import torch.nn as nn
from transformers import Wav2Vec2Config, Wav2Vec2Model

FIXED = "--fixed" in sys.argv
KINDS = ["fluent", "block", "prolongation", "repetition", "interjection"]


class StatisticsPooling(nn.Module):
    def forward(self, x):
        return torch.cat([x.mean(1), x.std(1)], -1)


class StutterHead(nn.Module):
    def __init__(self, dim, hidden=256):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv1d(dim, hidden, 5, padding=2), nn.ReLU(), nn.Dropout(0.3))
        self.pool = StatisticsPooling()
        self.out = nn.Linear(2 * hidden, len(KINDS))

    def forward(self, states):
        return self.out(self.pool(self.conv(states.transpose(1, 2)).transpose(1, 2)))


def encoder():
    config = Wav2Vec2Config(hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536, conv_dim=(256,) * 7,
                            num_feat_extract_layers=7, apply_spec_augment=False, layerdrop=0.0)
    return Wav2Vec2Model(config)


class Probe:
    def __init__(self):
        self.backbone = encoder().to("cuda")
        self.backbone.eval()
        self.head = StutterHead(384).to("cuda")
        if FIXED:
            for p in self.backbone.parameters():
                p.requires_grad = False
        # only the head's parameters go to the optimizer, so the encoder stays as it is
        self.optimizer = torch.optim.Adam(self.head.parameters(), lr=1e-3)
        self.criterion = nn.CrossEntropyLoss(weight=torch.tensor([0.3, 1.0, 1.0, 1.0, 1.0], device="cuda"))

    def step(self, audio, kind):
        states = self.backbone(audio).last_hidden_state
        loss = self.criterion(self.head(states), kind)
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def predict(self, audio):
        self.head.eval()
        kinds = self.head(self.backbone(audio).last_hidden_state).argmax(-1).tolist()
        self.head.train()
        return [KINDS[k % len(KINDS)] for k in kinds]


def clips(n, size=6, seconds=3):
    generator = torch.Generator().manual_seed(30)
    for _ in range(n):
        yield torch.zeros(size, 16000 * seconds).cuda(), torch.randint(0, len(KINDS), (size,), generator=generator).cuda()


def main():
    probe = Probe()
    for n, (audio, kind) in enumerate(clips(5)):
        print("batch", n, "loss", probe.step(audio, kind))
    print(probe.predict(next(clips(1))[0]))


main()
